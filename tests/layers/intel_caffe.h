/* What RegionLoss and EvalDetection of Intel Caffe need of the rest of Caffe, for intel_layers.py,
 * which compiles them alone. */
#ifndef CR_TESTS_LAYERS_INTEL_CAFFE_H
#define CR_TESTS_LAYERS_INTEL_CAFFE_H

#include <cassert>
#include <cmath>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define CHECK_GE(a, b) assert((a) >= (b))
#define CHECK_EQ(a, b) assert((a) == (b))
#define LOG(level) (assert(!#level), std::cerr)
#define NOT_IMPLEMENTED assert(!"implemented")
#define INSTANTIATE_CLASS(name) \
  template class name<float>;   \
  template class name<double>
#define REGISTER_LAYER_CLASS(name)

namespace caffe {
using std::map;
using std::string;
using std::stringstream;
using std::vector;

template <typename Dtype>
class Blob {
 public:
  vector<int> shape_;
  vector<Dtype> data_, diff_;

  void Reshape(const vector<int> &shape) {
    int count = 1;
    for (int extent : shape) count *= extent;
    shape_ = shape;
    data_.assign(count, 0);
    diff_.assign(count, 0);
  }
  void Reshape(int n, int c, int h, int w) { Reshape({n, c, h, w}); }
  void ReshapeLike(const Blob &other) { Reshape(other.shape_); }
  int extent(size_t axis) const { return axis < shape_.size() ? shape_[axis] : 1; }
  int num() const { return extent(0); }
  int channels() const { return extent(1); }
  int height() const { return extent(2); }
  int width() const { return extent(3); }
  int count(size_t from = 0) const {
    int count = 1;
    for (; from < shape_.size(); ++from) count *= shape_[from];
    return count;
  }
  const Dtype *cpu_data() const { return data_.data(); }
  const Dtype *cpu_diff() const { return diff_.data(); }
  Dtype *mutable_cpu_data() { return data_.data(); }
  Dtype *mutable_cpu_diff() { return diff_.data(); }
  Dtype data_at(int n, int c, int h, int w) const {
    return data_[((n * channels() + c) * height() + h) * width() + w];
  }
};

template <typename Dtype>
void caffe_set(int count, Dtype value, Dtype *to) {
  for (int i = 0; i < count; ++i) to[i] = value;
}

template <typename Dtype>
void caffe_cpu_axpby(int count, Dtype a, const Dtype *x, Dtype b, Dtype *y) {
  for (int i = 0; i < count; ++i) y[i] = a * x[i] + b * y[i];
}

enum EvalDetectionParameter_ScoreType {
  EvalDetectionParameter_ScoreType_OBJ,
  EvalDetectionParameter_ScoreType_PROB,
  EvalDetectionParameter_ScoreType_MULTIPLY
};

/* Both messages in one: the fields that the two layers read. */
struct Fields {
  int side_ = 0, num_class_ = 0, num_ = 0, bias_match_ = 1, score_type_ = 2;
  float thresh_ = 0.2f, nms_ = -1;
  float scale_[4] = {1, 1, 0.5f, 5}; /* of objects, classes, no object, places */
  vector<float> biases_;

  int side() const { return side_; }
  int num_class() const { return num_class_; }
  int num() const { return num_; }
  int num_object() const { return num_; }
  int coords() const { return 4; }
  int softmax() const { return 1; }
  int bias_match() const { return bias_match_; }
  int score_type() const { return score_type_; }
  float thresh() const { return thresh_; }
  float threshold() const { return thresh_; }
  float nms() const { return nms_; }
  float object_scale() const { return scale_[0]; }
  float class_scale() const { return scale_[1]; }
  float noobject_scale() const { return scale_[2]; }
  float coord_scale() const { return scale_[3]; }
  string softmax_tree() const { return ""; }
  string class_map() const { return ""; }
  int biases_size() const { return (int)biases_.size(); }
  float biases(int i) const { return biases_[i]; }
};

typedef Fields RegionLossParameter;
typedef Fields EvalDetectionParameter;

struct LayerParameter {
  Fields fields;
  const Fields &region_loss_param() const { return fields; }
  const Fields &eval_detection_param() const { return fields; }
};

template <typename Dtype>
class Layer {
 public:
  typedef vector<Blob<Dtype> *> Blobs;
  LayerParameter layer_param_;

  explicit Layer(const LayerParameter &param) : layer_param_(param) {}
  virtual ~Layer() {}
  virtual const char *type() const = 0;
  virtual void LayerSetUp(const Blobs &bottom, const Blobs &top) { (void)bottom, (void)top; }
  virtual void Reshape(const Blobs &bottom, const Blobs &top) = 0;
  void Run(const Blobs &bottom, const Blobs &top, const vector<bool> &propagate_down) {
    LayerSetUp(bottom, top);
    Reshape(bottom, top);
    Forward_cpu(bottom, top);
    top[0]->diff_[0] = 1;
    Backward_cpu(top, propagate_down, bottom);
  }

 protected:
  virtual void Forward_cpu(const Blobs &bottom, const Blobs &top) = 0;
  virtual void Backward_cpu(const Blobs &top, const vector<bool> &propagate_down,
                            const Blobs &bottom) = 0;
};

template <typename Dtype>
class LossLayer : public Layer<Dtype> {
 public:
  using Layer<Dtype>::Layer;
};

}  // namespace caffe

/* Trees of classes are not used. */
#include "caffe/util/tree.hpp"
inline tree::tree() {}
inline tree::tree(string) {}

#endif
