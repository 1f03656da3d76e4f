"""Caffe's messages for Google's protobuf."""
