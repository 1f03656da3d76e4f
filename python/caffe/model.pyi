from . import Model as Model, Prediction as Prediction
