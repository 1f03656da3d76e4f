#!/bin/bash
# crema plot: curves from records and from logs of Caffe, as tables and as images.
. "$(dirname "$0")/lib.sh"

cat >caffe.log <<'LOG'
I0101 10:00:00.000000  1 solver.cpp:330] Iteration 0, Testing net (#0)
I0101 10:00:00.000000  1 solver.cpp:397]     Test net output #0: accuracy = 0.1
I0101 10:00:00.000000  1 solver.cpp:397]     Test net output #1: loss = 2.5 (* 1 = 2.5 loss)
I0101 10:00:00.000000  1 solver.cpp:218] Iteration 0 (-1.4e-45 iter/s, 0.1s/10 iters), loss = 2.25
I0101 10:00:00.000000  1 solver.cpp:237]     Train net output #0: loss = 2.25 (* 1 = 2.25 loss)
I0101 10:00:00.000000  1 sgd_solver.cpp:105] Iteration 0, lr = 0.01
I0101 10:00:01.000000  1 solver.cpp:218] Iteration 10 (12.5 iter/s, 0.8s/10 iters), loss = nan
I0101 10:00:01.000000  1 solver.cpp:330] Iteration 10, Testing net (#1)
I0101 10:00:01.000000  1 solver.cpp:397]     Test net output #0: accuracy = 0.75
LOG
run plot caffe.log out.csv
expect_ok "a log of Caffe"
tr -d '\r' <out.csv | diff - <(cat <<'CSV'
run,quantity,curve,iteration,value
caffe.log,accuracy,test,0,0.1
caffe.log,loss,test,0,2.5
caffe.log,loss,train,0,2.25
caffe.log,loss,train,10,nan
caffe.log,learning rate,,0,0.01
caffe.log,iterations per second,,10,12.5
caffe.log,accuracy,test 1,10,0.75
CSV
) || fail "other values of a log"

# A record with a resume: iterations 20 and 30 of the first part are lost, and a line is unfinished.
mkdir "a,b"
cat >"a,b/metrics.jsonl" <<'RECORD'
{"event":"start","iteration":0,"time_ms":1,"max_iterations":40}
{"event":"train","iteration":10,"time_ms":2,"loss":2,"rate":0.1,"samples_per_second":100,"outputs":{"loss":2},"norms":{"ip":{"weights":1,"gradients":1}}}
{"event":"train","iteration":20,"time_ms":3,"loss":null,"rate":0.1,"samples_per_second":100,"outputs":{"loss":null}}
{"event":"train","iteration":30,"time_ms":4,"loss":9,"rate":0.1,"samples_per_second":100,"outputs":{"loss":9}}
{"event":"start","iteration":15,"time_ms":5,"max_iterations":40}
{"event":"test","iteration":20,"time_ms":6,"net":0,"outputs":{"accuracy":[0.5,0.25],"loss3/loss":1.5}}
{"event":"train","iteration":20,"time_ms":7,"loss":1,"rate":0.05,"samples_per_second":50,"outputs":{"loss":1}}
{"event":"train","iteration":30,"time_
RECORD
run plot "a,b" out.csv
expect_ok "a record"
tr -d '\r' <out.csv | diff - <(cat <<'CSV'
run,quantity,curve,iteration,value
"a,b",loss,train,10,2
"a,b",loss,train,20,1
"a,b",learning rate,,10,0.1
"a,b",learning rate,,20,0.05
"a,b",samples per second,,10,100
"a,b",samples per second,,20,50
"a,b",accuracy,test,20,0.5
"a,b",loss,test loss3/loss,20,1.5
CSV
) || fail "other values of a record"

# Images: of the right kind and size, the same each time, and different for other curves.
run plot caffe.log "a,b" both.svg
expect_ok "SVG"
grep -q '<svg .*width="1040.*height="960' both.svg || fail "the size of the SVG"
run plot -log -smoothing 0.9 caffe.log "a,b" log.svg
expect_ok "SVG with logarithmic axes"
cmp -s both.svg log.svg && fail "-log changes nothing"
run plot caffe.log one.png
expect_ok "PNG"
python3 - one.png <<'P' || fail "the PNG is damaged"
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
assert (width, height) == (1040, 640), (width, height)
parts, at = b"", 8
while at < len(data):
    size, name = struct.unpack(">I4s", data[at:at + 8])
    parts += data[at + 8:at + 8 + size] if name == b"IDAT" else b""
    at += 12 + size
pixels = zlib.decompress(parts)
step = len(pixels) // height
bytes_per = (step - 1) // width
assert step == 1 + width * bytes_per and len(set(pixels)) > 20  # white, axes, two curves and text
P

# Bad input.
echo "no log" >other.txt
: >empty.log
run plot other.txt out.svg
expect_error "another text" "other.txt: neither a record of crema train nor a log of a training"
run plot empty.log out.svg
expect_error "an empty file" "empty.log: neither a record"
run plot missing.log out.svg
expect_error "a missing file" "missing.log"
mkdir nothing
run plot nothing out.svg
expect_error "a folder without a record" "nothing/metrics.jsonl"
run plot caffe.log out.jpg
expect_error "another ending" "out.jpg: the name must end in .svg, .png or .csv"
run plot caffe.log missing/out.svg
expect_error "a missing folder" "missing/out.svg"
run plot -smoothing 1 caffe.log out.svg
expect_usage "-smoothing" "-smoothing: expected a number of at least 0 and below 1"
finish
