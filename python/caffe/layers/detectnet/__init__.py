"""The Python layers of DetectNet (NVIDIA's fork of Caffe, DIGITS): clustering and scores of detected boxes."""
