/* Reads a map and objects, runs RegionLoss or EvalDetection of Intel Caffe and prints the gradient
 * of the map, or the result; intel_layers.py starts it.
 *
 * Usage: intel_caffe loss|eval NUM_CLASS NUM SIDE BIAS_MATCH THRESH NMS SCORE_TYPE BIASES... <
 * NUMBERS NUMBERS: how many images and objects, the map's values, those of the objects. */
#include "intel_caffe.h"

#include <cstdlib>
#include <iomanip>

#include "caffe/layers/eval_detection_layer.hpp"
#include "caffe/layers/region_loss_layer.hpp"

static void read(caffe::Blob<double> *blob) {
  for (double &value : blob->data_) std::cin >> value;
}

template <class L>
static void run(const caffe::LayerParameter &param, caffe::Blob<double> *map,
                caffe::Blob<double> *objects, caffe::Blob<double> *top, bool backward) {
  L layer(param);
  caffe::Layer<double> *base = &layer;
  base->Run({map, objects}, {top}, {backward, false});
}

int main(int argc, char **argv) {
  caffe::LayerParameter param;
  caffe::Fields *f = &param.fields;
  caffe::Blob<double> map, objects, top;
  const bool loss = argc > 8 && std::string(argv[1]) == "loss";
  int images = 0, rows = 0;
  if (argc < 9) return 1;
  f->num_class_ = std::atoi(argv[2]);
  f->num_ = std::atoi(argv[3]);
  f->side_ = std::atoi(argv[4]);
  f->bias_match_ = std::atoi(argv[5]);
  f->thresh_ = (float)std::atof(argv[6]);
  f->nms_ = (float)std::atof(argv[7]);
  f->score_type_ = std::atoi(argv[8]);
  for (int i = 9; i < argc; ++i) f->biases_.push_back((float)std::atof(argv[i]));
  std::cin >> images >> rows;
  map.Reshape(images, f->num_ * (5 + f->num_class_), f->side_, f->side_);
  objects.Reshape(1, 1, rows, 8);
  read(&map);
  read(&objects);
  if (!std::cin) return 1;
  if (loss) run<caffe::RegionLossLayer<double>>(param, &map, &objects, &top, true);
  else run<caffe::EvalDetectionLayer<double>>(param, &map, &objects, &top, false);
  std::cout << std::setprecision(12);
  for (double value : loss ? map.diff_ : top.data_) std::cout << value << "\n";
  return 0;
}
