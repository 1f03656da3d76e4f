from . import caffe_pb2 as caffe_pb2
