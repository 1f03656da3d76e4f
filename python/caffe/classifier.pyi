from . import Classifier as Classifier
