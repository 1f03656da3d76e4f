#!/bin/bash
# The bundled network knows the cat in each precision, with tables of each method, and what does not go
# together is refused.
. "$(dirname "$0")/lib.sh"
model=$source_dir/models/squeezenet_v1.0
weights=$model/squeezenet_v1.0.caffemodel
cat_image=$source_dir/examples/images/cat.jpg
echo "$cat_image" >list.txt
calibrate=(calibrate "$model/deploy.prototxt" -weights "$weights" -mean_value 104,117,123 -resize 256)

knows_the_cat() {
  "$crema" classify -top 1 "$@" "$cat_image" >out 2>log || fail "$*: $(cat log)"
  grep -q "Egyptian cat" out || fail "$*: $(cat out)"
}

knows_the_cat -precision bf16
for method in minmax percentile kl; do
  "$crema" "${calibrate[@]}" -images list.txt -method $method -out net.table >out 2>log ||
    fail "calibrate: $(cat log)"
  grep -q "net.table: scales of 26 layers" out || fail "calibrate says: $(cat out)"
  [ "$(grep -c '^conv1_param_0 ' net.table)" = 1 ] || fail "no scales of weights"
  knows_the_cat -precision int8 -table net.table
done

run classify -precision int8 "$cat_image"
expect_error "no table" "crema calibrate"
run classify -precision fp8 "$cat_image"
expect_error "another precision" "-precision fp8" "bf16"
run time -model "$model/deploy.prototxt" -phase TEST -precision bf16
expect_error "not compiled" "-compiled"
run "${calibrate[@]}" -images list.txt -method mean -out net.table
expect_error "another method" "-method mean" "percentile"
run "${calibrate[@]}" -images none.txt -out net.table
expect_error "no list" "none.txt"
echo no.jpg >list.txt
run "${calibrate[@]}" -images list.txt -out net.table
expect_error "no picture" "no.jpg"
finish
