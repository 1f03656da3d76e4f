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
  grep -q "net.table: scales of 27 layers" out || fail "calibrate says: $(cat out)"
  [ "$(grep -c '^conv1_param_0 ' net.table)" = 1 ] || fail "no scales of weights"
  knows_the_cat -precision int8 -table net.table
done

# The weights of two products are what the compiled model takes, and they are half as large, or a quarter.
cat >products.prototxt <<'NET'
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1024 } } }
layer {
  name: "a" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param { num_output: 512 weight_filler { type: "xavier" } }
}
layer {
  name: "b" type: "InnerProduct" bottom: "y" top: "z"
  inner_product_param { num_output: 512 weight_filler { type: "xavier" } }
}
NET
printf "a 100\nb 100\n" >products.table
for precision in f32 bf16 int8; do
  run benchmark -seconds 0.01 -threads 1 -batch 1 -precision $precision -table products.table products.prototxt
  expect_ok "benchmark -precision $precision"
  grep "^ *1 *1 |" log | awk '{ print $11 }' >>planned
  grep -q "^compiled: $precision" log && grep -q "no instructions" log && echo slow >$precision
done
[ -e bf16 ] || awk 'NR == 1 { f32 = $1 } NR == 2 { exit !($1 < 0.6 * f32 && $1 > 1) }' planned || fail "bf16: $(cat planned)"
[ -e int8 ] || awk 'NR == 1 { f32 = $1 } NR == 3 { exit !($1 < 0.35 * f32 && $1 > 0.7) }' planned || fail "int8: $(cat planned)"
run benchmark -precision int8 products.prototxt
expect_error "benchmark without a table" "crema calibrate"
run benchmark -precision half products.prototxt
expect_usage "benchmark of another precision" '-precision: expected f32, bf16 or int8, found "half"'

run classify -precision int8 "$cat_image"
expect_error "no table" "crema calibrate"
run classify -precision fp8 "$cat_image"
expect_usage "another precision" '-precision: expected f32, bf16 or int8, found "fp8"'
run time -model "$model/deploy.prototxt" -phase TEST -precision bf16
expect_usage "not compiled" "-compiled"
run "${calibrate[@]}" -images list.txt -method mean -out net.table
expect_usage "another method" '-method: expected minmax, percentile or kl, found "mean"'
run "${calibrate[@]}" -images none.txt -out net.table
expect_error "no list" "none.txt"
echo no.jpg >list.txt
run "${calibrate[@]}" -images list.txt -out net.table
expect_error "no picture" "no.jpg"
finish
