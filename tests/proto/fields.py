#!/usr/bin/env python3
"""No field of a dialect is passed over in silence.

Usage: fields.py CREMA [--list]

tests/proto/dialects.tsv lists the fields of the schemas of BVLC's and NVIDIA's Caffe, Caffe-SSD, Intel Caffe, PSPNet and
py-faster-rcnn, with those that have each. Every one of them is
  unknown    src/proto/caffe.proto lacks it, so that a text file with it is refused by name,
  refused    its comment there says so, and a net below with it is refused by name,
  no effect  its comment says so, or that it is kept only,
  read       a source file that uses its message uses it.
The same holds for fields that only the schema has. --list prints what each one is.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import schema  # noqa: E402

INPUT = 'layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 dim: 6 dim: 6 } } } '
LAYER = INPUT + 'layer { name: "op" type: "%s" bottom: "x" top: "y" %s }'
DATA = 'layer { name: "op" type: "ImageData" top: "x" image_data_param { source: "list.txt" %s } %s }'
CLIPS = 'layer { name: "op" type: "VideoData" top: "x" video_data_param { source: "list.txt" %s } %s }'
PEOPLE = 'layer { name: "op" type: "CPMData" top: "x" data_param { source: "db" batch_size: 1 } transform_param { %s } }'
BOX = INPUT + 'layer { name: "op" type: "%s" bottom: "x" bottom: "x" bottom: "x" %s top: "y" %s }'


def transform(text):
    return DATA % ("", "transform_param { %s }" % text)


def layer(kind, text):
    return LAYER % (kind, text)


# A net with each field that is refused.
REFUSED = {
    "BatchNormParameter.update_global_stats": layer("BatchNorm", "batch_norm_param { update_global_stats: true }"),
    "ConcatParameter.per_fla_fuse": layer("Concat", "concat_param { per_fla_fuse: true }"),
    "ConvolutionParameter.coeff": layer("Convolution", "convolution_param { num_output: 1 kernel_size: 1 coeff: 1 }"),
    "ConvolutionParameter.fusion_type":
        layer("Convolution", "convolution_param { num_output: 1 kernel_size: 1 fusion_type: SUM_FUSION }"),
    "DenseImageDataParameter.label_divide_factor":
        'layer { name: "op" type: "DenseImageData" top: "x" dense_image_data_param { source: "list.txt" label_divide_factor: 8 } }',
    "DetectionOutputParameter.visualize":
        BOX % ("DetectionOutput", "", "detection_output_param { num_classes: 2 visualize: true }"),
    "DetectionOutputParameter.use_polygon":
        BOX % ("DetectionOutput", "", "detection_output_param { num_classes: 2 use_polygon: true }"),
    "ImageDataParameter.dataset_share_per_node": DATA % ("dataset_share_per_node: 0.5", ""),
    "LossParameter.label_smoothing":
        INPUT + 'layer { name: "op" type: "SoftmaxWithLoss" bottom: "x" bottom: "x" loss_param { label_smoothing: 0.1 } }',
    "MultiBoxLossParameter.bp_inside":
        BOX % ("MultiBoxLoss", 'bottom: "x"', "multibox_loss_param { num_classes: 2 bp_inside: true }"),
    "MultiBoxLossParameter.ignore_difficult_gt":
        BOX % ("MultiBoxLoss", 'bottom: "x"', "multibox_loss_param { num_classes: 2 ignore_difficult_gt: true }"),
    "MultiBoxLossParameter.use_polygon":
        BOX % ("MultiBoxLoss", 'bottom: "x"', "multibox_loss_param { num_classes: 2 use_polygon: true }"),
    "Yolov3DetectionOutputParameter.gaussian_box":
        layer("Yolov3DetectionOutput", "yolov3_detection_output_param { num_box: 1 mask: 0 anchors_scale: 8 biases: 3 "
              "biases: 4 gaussian_box: true }"),
    "Yolov3Parameter.use_focal_loss":
        INPUT + 'layer { name: "op" type: "Yolov3" bottom: "x" bottom: "x" '
        'yolov3_param { num: 1 mask: 0 biases: 3 biases: 4 use_focal_loss: true } top: "y" }',
    "NoiseParameter.convert_to_lab": transform("noise_param { convert_to_lab: true }"),
    "VideoDataParameter.num_of_labels": CLIPS % ("num_of_labels: 2", ""),
    "VideoDataParameter.use_multiple_label": CLIPS % ("use_multiple_label: true", ""),
    "TransformationParameter.original_image": transform("original_image: true"),
    "PoolingParameter.axis": layer("Pooling", "pooling_param { kernel_size: 2 axis: 2 }"),
    "ReLUParameter.fuse": layer("ReLU", "relu_param { fuse: true negative_slope: 0.5 }"),
    "RegionLossParameter.softmax_tree":
        INPUT + 'layer { name: "op" type: "RegionLoss" bottom: "x" bottom: "x" top: "y" '
                'region_loss_param { softmax_tree: "t" } }',
    "ReshapeParameter.pixelshuffler": layer("Reshape", "reshape_param { pixelshuffler: 2 }"),
    "ResizeParameter.height_scale": transform("resize_param { height: 4 width: 4 height_scale: 8 }"),
    "ResizeParameter.width_scale": transform("resize_param { height: 4 width: 4 width_scale: 8 }"),
    "SoftmaxLossParameter.weight_source":
        'input: "x" input_dim: [1, 2, 6, 6] layers { name: "op" type: SOFTMAX_LOSS bottom: "x" softmaxloss_param { weight_source: "w" } }',
    "TransformationParameter.aug_way": PEOPLE % 'aug_way: "table"',
    "TransformationParameter.do_clahe": PEOPLE % "do_clahe: true",
    "TripletLossParameter.num_triplets": layer("TripletLoss", "triplet_loss_param { num_triplets: 1 }"),
    "UnpoolingParameter.pad": layer("Unpooling", "unpooling_param { kernel_size: 2 pad: 1 }"),
    "UnpoolingParameter.pad_h": layer("Unpooling", "unpooling_param { kernel_size: 2 pad_h: 1 pad_w: 0 }"),
    "UnpoolingParameter.pad_w": layer("Unpooling", "unpooling_param { kernel_size: 2 pad_h: 0 pad_w: 1 }"),
    "CorrelationParameter.single_direction":
        INPUT + 'layer { name: "op" type: "Correlation" bottom: "x" bottom: "x" top: "y" '
                'correlation_param { kernel_size: 1 max_displacement: 0 single_direction: 1 } }',
    "SpatialTransformerParameter.sampler_type":
        INPUT + 'layer { name: "op" type: "SpatialTransformer" bottom: "x" bottom: "x" top: "y" '
                'st_param { sampler_type: "nearest" } }',
    "SpatialTransformerParameter.transform_type":
        INPUT + 'layer { name: "op" type: "SpatialTransformer" bottom: "x" bottom: "x" top: "y" '
                'st_param { transform_type: "projective" } }',
    "TransformationParameter.flow": transform("flow: true"),
    "TransformationParameter.horizontal_stretch_lower": transform("horizontal_stretch_lower: 0.5"),
    "TransformationParameter.horizontal_stretch_upper": transform("horizontal_stretch_upper: 2"),
    "TransformationParameter.pad": transform("pad: 3"),
    "TransformationParameter.rand_resize_ratio_lower": transform("rand_resize_ratio_lower: 0.5"),
    "TransformationParameter.rand_resize_ratio_upper": transform("rand_resize_ratio_upper: 2"),
    "TransformationParameter.random_aspect_ratio_param": transform("random_aspect_ratio_param { }"),
    "TransformationParameter.vertical_stretch_lower": transform("vertical_stretch_lower: 0.5"),
    "TransformationParameter.vertical_stretch_upper": transform("vertical_stretch_upper: 2"),
}

# Messages, or fields of them, that nothing reads, and why nobody misses it.
KEPT = {
    "C2TensorProto": "no file or layer has one",
    "C2TensorProtos": "no file or layer has one",
    "BlobProtoVector": "no file or layer has one",
    "TRTParameter": "layers of type TRT are refused",
    "LayerParameter.trt_param": "layers of type TRT are refused",
    "DetectNetAugmentationParameter": "layers of type DetectNetTransformation are refused",
    "DetectNetGroundTruthParameter": "layers of type DetectNetTransformation are refused",
    "DetectNetGroundTruthParameter.ClassMapping": "layers of type DetectNetTransformation are refused",
    "LayerParameter.detectnet_augmentation_param": "layers of type DetectNetTransformation are refused",
    "LayerParameter.detectnet_groundtruth_param": "layers of type DetectNetTransformation are refused",
    "PythonParameter": "the package in Python reads them by itself",
    "LayerParameter.python_param": "the package in Python reads it by itself",
    "LayerParameter.sigmoid_param": "it has an engine alone",
    "LayerParameter.tanh_param": "it has an engine alone",
    "LayerParameter.split_param": "it has an engine alone",
    "V1LayerParameter.sigmoid_param": "it has an engine alone",
    "V1LayerParameter.tanh_param": "it has an engine alone",
    "Datum.record_id": "it names the record for other programs",
    "AnnotatedDatum.record_id": "it names the record for other programs",
    "LabelMapItem.display_name": "results have the name",
    "QuantizationParameter.bw_layer_out": "kept and written; compiled models take scale_in and scale_params",
    "QuantizationParameter.bw_params": "kept and written; compiled models take scale_in and scale_params",
    "QuantizationParameter.fl_layer_in": "kept and written; compiled models take scale_in and scale_params",
    "QuantizationParameter.fl_layer_out": "kept and written; compiled models take scale_in and scale_params",
    "QuantizationParameter.fl_params": "kept and written; compiled models take scale_in and scale_params",
    "QuantizationParameter.force_u8_input": "kept and written; compiled models take scale_in and scale_params",
    "QuantizationParameter.rounding_scheme": "kept and written; compiled models take scale_in and scale_params",
    "QuantizationParameter.scale_out": "kept and written; compiled models take scale_in and scale_params",
    "MnModelParallelParameter.layer_to": "has no effect on one machine",
    "NetParameter.default_conv_algos_override": "chooses among algorithms of NVIDIA's libraries",
    "NetParameter.default_cudnn_math_override": "chooses among algorithms of NVIDIA's libraries",
    "MatReadParameter": "layers of type MatRead are refused",
    "LayerParameter.mat_read_param": "layers of type MatRead are refused",
    "V1LayerParameter.mat_read_param": "layers of type MatRead are refused",
    "V0LayerParameter.new_channels": "the upgrade drops it with a warning, as Caffe's does",
    "V0LayerParameter.new_num": "the upgrade drops it with a warning, as Caffe's does",
    "PluginParameter.param_str": "plug-ins read it as text (crema_layer_field)",
    "RandomAspectRatioParameter": "random_aspect_ratio_param is refused as a whole",
}
NO_EFFECT = re.compile(r"no effect|[Bb]elongs to visualize|Has nothing to print|has nothing to print")


def comments(message):
    """Field name -> comment, with what "Likewise" refers to."""
    result, before = {}, ""
    for field in message.fields:
        text = field.comment
        if text.startswith(("Likewise", "The same as cache", "Its ")) or text.endswith("likewise."):
            text = text + " (" + before + ")"
        else:
            before = text
        result[field.name] = text
    return result


def c_type(name):
    """The schema's Outer.Inner as protobuf-c names it."""
    parts = []
    for part in name.split("."):
        part = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", part)
        parts.append("".join(word[0].upper() + word[1:] for word in part.split("_") if word))
    return "Caffe__" + "__".join(parts)


def sources():
    paths = [p for folder in ("src", "tools", "python") for p in (ROOT / folder).rglob("*.[ch]")]
    return {p: p.read_text() for p in paths if "pb-c" not in p.name}


def holders(messages):
    """message -> names of the fields that hold one."""
    found = {}
    for message in messages.values():
        for field in message.fields:
            found.setdefault(field.type.split(".")[-1], set()).add(field.name)
    return found


# Read in all folders, through pointers that others hand over.
EVERYWHERE = {"NetParameter", "LayerParameter", "V1LayerParameter"}
WORD = re.compile(r"(?:->|\.|\"|GIVEN\(\w+, )(\w+)")
TYPE = re.compile(r"\bCaffe__\w+")


def words(texts):
    """folder -> the words that its files take from structures or have in quotes, and the messages that they name."""
    used, named = {}, {}
    for path, text in texts.items():
        used.setdefault(path.parent, set()).update(WORD.findall(text))
        named.setdefault(path.parent, set()).update(TYPE.findall(text))
    return used, named


def is_read(name, field, texts, held):
    """Whether a folder whose files name the message, or a field that holds one, has a file that uses the field."""
    used, named = texts
    holders_of = set() if name in EVERYWHERE else held.get(name.split(".")[-1], set())
    small = field.lower()  # protobuf-c's structures have no capital letters
    forms = {field, field + "_", small, "has_" + small, "n_" + small}
    return any(forms & used[folder] and (not holders_of or c_type(name) in named[folder] or holders_of & used[folder])
               for folder in used)


def kind_of(name, field, text, texts, held):
    if "Refused" in text or "Else refused" in text:
        return "refused"
    if NO_EFFECT.search(text):
        return "no effect"
    return "read" if is_read(name, field, texts, held) else None


def check_refused(crema, wrong):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "list.txt").write_text(f"{ROOT}/examples/images/cat.jpg 0\n")
        for field, net in REFUSED.items():
            pathlib.Path(folder, "net.prototxt").write_text(net)
            done = subprocess.run([crema, "summary", "net.prototxt"], cwd=folder, text=True, timeout=60,
                                  capture_output=True)
            last = field.split(".")[-1]
            if done.returncode == 0 or last.rsplit("_", 1)[0] not in done.stderr:
                wrong.append(f"{field}: not refused by name: {done.stderr.strip()[-200:]}")


def main():
    messages, _ = schema.read()
    texts, held, wrong, listing = words(sources()), holders(messages), [], []
    rows = {}
    for line in (ROOT / "tests/proto/dialects.tsv").read_text().splitlines()[1:]:
        name, field, dialects = line.split("\t")
        rows[name, field] = dialects
    for name, message in messages.items():
        for field in message.fields:
            rows.setdefault((name, field.name), "crema" if "crema" in (field.marks, message.marks) else "forks")
    refused = set()
    for (name, field), dialects in sorted(rows.items()):
        text = comments(messages[name]).get(field) if name in messages else None
        kind = "unknown" if text is None else KEPT.get(name) or KEPT.get(f"{name}.{field}") or kind_of(name, field, text, texts, held)
        if kind is None:
            wrong.append(f"{name}.{field}: nothing reads it, and its comment does not say that it has no effect")
        if kind == "refused":
            refused.add(f"{name}.{field}")
        listing.append(f"{name}\t{field}\t{dialects}\t{kind}\t{text or 'not in the schema'}")
    for field in sorted(refused ^ set(REFUSED)):
        wrong.append(f"{field}: refused, but no net here shows it" if field in refused else f"{field}: not refused")
    check_refused(pathlib.Path(sys.argv[1]).resolve(), wrong)
    if "--list" in sys.argv:
        print("\n".join(listing))
    for one in wrong:
        print(f"fields: {one}")
    sys.exit(1 if wrong else 0)


main()
