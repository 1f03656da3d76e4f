from os import PathLike
from typing import Any, Mapping, Sequence

import caffe as caffe

from .net_spec import Layers, NetSpec, Parameters, Top
from .proto import caffe_pb2 as caffe_pb2

L: Layers
P: Parameters

_Size = int | Sequence[int]

def check_if_exist(path: str | PathLike[str]) -> bool: ...
def make_if_not_exist(path: str | PathLike[str]) -> None: ...
def UnpackVariable(var: Any, num: int) -> list[Any]: ...
def ConvBNLayer(net: NetSpec, from_layer: str, out_layer: str, use_bn: bool, use_relu: bool, num_output: int,
                kernel_size: _Size, pad: _Size, stride: _Size, dilation: int = ..., use_scale: bool = ...,
                lr_mult: float = ..., conv_prefix: str = ..., conv_postfix: str = ..., bn_prefix: str = ...,
                bn_postfix: str = ..., scale_prefix: str = ..., scale_postfix: str = ..., bias_prefix: str = ...,
                bias_postfix: str = ..., **bn_params: Any) -> None: ...
def ResBody(net: NetSpec, from_layer: str, block_name: str, out2a: int, out2b: int, out2c: int, stride: int,
            use_branch1: bool, dilation: int = ..., **bn_param: Any) -> None: ...
def InceptionTower(net: NetSpec, from_layer: str, tower_name: str, layer_params: Sequence[Mapping[str, Any]],
                   **bn_param: Any) -> Top: ...
def CreateAnnotatedDataLayer(source: str, batch_size: int = ..., backend: int = ..., output_label: bool = ...,
                             train: bool = ..., label_map_file: str = ..., anno_type: int | None = ...,
                             transform_param: Mapping[str, Any] | None = ...,
                             batch_sampler: Sequence[Mapping[str, Any]] = ...) -> Any: ...
def ZFNetBody(net: NetSpec, from_layer: str, need_fc: bool = ..., fully_conv: bool = ..., reduced: bool = ...,
              dilated: bool = ..., dropout: bool = ..., need_fc8: bool = ...,
              freeze_layers: Sequence[str] = ...) -> NetSpec: ...
def VGGNetBody(net: NetSpec, from_layer: str, need_fc: bool = ..., fully_conv: bool = ..., reduced: bool = ...,
               dilated: bool = ..., nopool: bool = ..., dropout: bool = ..., freeze_layers: Sequence[str] = ...,
               dilate_pool4: bool = ...) -> NetSpec: ...
def ResNet50Body(net: NetSpec, from_layer: str, use_pool5: bool = ..., use_dilation_conv5: bool = ...,
                 **bn_param: Any) -> NetSpec: ...
def ResNet101Body(net: NetSpec, from_layer: str, use_pool5: bool = ..., use_dilation_conv5: bool = ...,
                  **bn_param: Any) -> NetSpec: ...
def ResNet152Body(net: NetSpec, from_layer: str, use_pool5: bool = ..., use_dilation_conv5: bool = ...,
                  **bn_param: Any) -> NetSpec: ...
def InceptionV3Body(net: NetSpec, from_layer: str, output_pred: bool = ..., **bn_param: Any) -> NetSpec: ...
def CreateMultiBoxHead(net: NetSpec, data_layer: str = ..., num_classes: int = ...,
                       from_layers: Sequence[str] = ..., use_objectness: bool = ...,
                       normalizations: Sequence[float] = ..., use_batchnorm: bool = ..., lr_mult: float = ...,
                       use_scale: bool = ..., min_sizes: Sequence[Any] = ..., max_sizes: Sequence[Any] = ...,
                       prior_variance: Sequence[float] = ..., aspect_ratios: Sequence[Any] = ...,
                       steps: Sequence[Any] = ..., img_height: int = ..., img_width: int = ...,
                       share_location: bool = ..., flip: bool = ..., clip: bool = ..., offset: float = ...,
                       inter_layer_depth: Sequence[int] = ..., kernel_size: _Size = ..., pad: _Size = ...,
                       conf_postfix: str = ..., loc_postfix: str = ..., **bn_param: Any) -> list[Top]: ...
