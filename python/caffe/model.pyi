from . import Model as Model
