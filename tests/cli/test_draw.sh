#!/usr/bin/env bash
# draw: the text that Graphviz reads, and how its program is called.
. "$(dirname "$0")/lib.sh"
cat >net.prototxt <<'NET'
name: "say \"net\""
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 2 dim: 8 dim: 6 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "back\\slash" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { global_pooling: true pool: AVE } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 5 }
  include { phase: TEST } }
NET
run draw net.prototxt net.dot
expect_ok "text"
diff - net.dot <<'DOT' || fail "another text"
digraph "say \"net\"" {
  rankdir=TB;
  node [shape=box, style=filled, fontname="sans"];
  edge [fontname="sans", fontsize=10];
  l0 [label="in\nInput", fillcolor="#6495ed"];
  l1 [label="conv\nConvolution\nkernel 3, stride 2, pad 1", fillcolor="#ff5050"];
  l0 -> l1 [label="data\n2x8x6x4"];
  l2 [label="back\\slash\nReLU", fillcolor="#90ee90"];
  l1 -> l2 [label="conv\n2x4x3x2"];
  l4 [label="pool\nPooling\naverage of all", fillcolor="#ff9900"];
  l2 -> l4 [label="conv\n2x4x3x2"];
  l5 [label="ip\nInnerProduct", fillcolor="#cc33ff"];
  l2 -> l5 [label="conv\n2x4x3x2"];
  o0 [shape=ellipse, fillcolor="#e0e0e0", label="ip"];
  l5 -> o0 [label="ip\n2x5"];
  o1 [shape=ellipse, fillcolor="#e0e0e0", label="pool"];
  l4 -> o1 [label="pool\n2x4x1x1"];
}
DOT
run draw -phase TRAIN -rankdir LR net.prototxt net.dot
expect_ok "phase TRAIN"
grep -q 'InnerProduct' net.dot && fail "a layer of phase TEST in phase TRAIN"
grep -q '^  rankdir=LR;$' net.dot || fail "the direction"

# Windows whose extents are not all the same, or are given as height and width.
cat >windows.prototxt <<'NET'
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 2 dim: 8 dim: 9 dim: 9 } } }
layer { name: "axes" type: "Convolution" bottom: "data" top: "axes"
  convolution_param { num_output: 4 kernel_size: 3 kernel_size: 1 stride: 2 stride: 2 pad: 1 pad: 0 } }
layer { name: "pairs" type: "Convolution" bottom: "data" top: "pairs"
  convolution_param { num_output: 4 kernel_h: 1 kernel_w: 3 stride_h: 1 stride_w: 2 pad_w: 1 } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
  pooling_param { kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0 } }
NET
run draw windows.prototxt windows.dot
expect_ok "windows"
for label in 'axes\nConvolution\nkernel 3x1, stride 2, pad 1x0' \
  'pairs\nConvolution\nkernel 1x3, stride 1x2, pad 0x1' \
  'pool\nPooling\nmaximum, kernel 3x2, stride 2x1, pad 1x0'; do
  grep -qF "[label=\"$label\"," windows.dot || fail "a window: $label"
done

# A program of that name, which says what it was given.
mkdir bin
printf '#!/bin/sh\necho "$@"\nexec cat\n' >bin/dot
chmod +x bin/dot
run draw net.prototxt net.dot
PATH=$work/bin:$PATH run draw net.prototxt picture.svg
expect_ok "svg"
echo "-Tsvg" | cat - net.dot | cmp - picture.svg || fail "what dot was given and what became of its output"
printf '#!/bin/sh\ncat >/dev/null\nexit 3\n' >bin/dot
PATH=$work/bin:$PATH run draw net.prototxt other.png
expect_error "dot fails" "dot failed with exit code 3; can it write png?"
[ -e other.png ] && fail "a file of an image that failed"
printf '#!/bin/sh\nkill -9 $$\n' >bin/dot
PATH=$work/bin:$PATH run draw net.prototxt other.png
expect_error "dot is killed" "dot was killed"
mkdir empty
PATH=$work/empty run draw net.prototxt other.png
expect_error "no dot" "png images require Graphviz" "install Graphviz, or write a .dot file"

run draw net.prototxt net
expect_usage "no kind" "the name must end in the kind of image"
run draw net.prototxt a.b/net
expect_usage "no kind" "the name must end in the kind of image"
run draw -rankdir UP net.prototxt net.dot
expect_usage "a direction" "expected TB, BT, LR or RL"
run draw net.prototxt none/net.dot
expect_error "no folder" "none/net.dot"
finish
