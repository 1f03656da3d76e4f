from . import Detector as Detector
