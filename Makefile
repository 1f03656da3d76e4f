# The few things that people do; everything else is cmake --preset <name> (CMakePresets.json).

BUILD := build
CREMA := $(BUILD)/bin/crema
MNIST := $(BUILD)/mnist

.PHONY: all run test check docs wheel test-onnx torture install uninstall command configure deps asan tsan test-arm64 clean cuda help

all: configure   ## Install what is needed and build
	@cmake --build --preset release

# Only the command is built, so that the first run starts soon.
run: command $(MNIST)/train_lmdb/data.mdb $(MNIST)/test_lmdb/data.mdb ## Train LeNet on MNIST
	@$(CREMA) train -solver models/lenet/solver.prototxt

$(MNIST)/%_lmdb/data.mdb: | command
	@mkdir -p $(MNIST)
	@rm -rf $(@D)
	@$(CREMA) convert_mnist data/mnist/$(part)-images-idx3-ubyte.gz \
	  data/mnist/$(part)-labels-idx1-ubyte.gz $(@D)

$(MNIST)/train_lmdb/data.mdb: part := train
$(MNIST)/test_lmdb/data.mdb: part := t10k

test: all        ## Build and run the tests, but for the long ones
	@ctest --preset quick -j 2

check: all       ## Build and run all tests; write the tables of what they prove
	@ctest --preset release -j 2
	@scripts/conformance.py $(BUILD) $(wildcard build-cuda) $(BUILD)/docs/conformance.md
	@scripts/layer_proofs.py $(BUILD)/docs/layer-proofs.md

wheel: deps      ## Build a Python wheel with all its libraries: dist/
	@scripts/wheel.sh

docs:            ## Build the manual: build/docs/html/index.html
	@scripts/setup.sh --docs
	@scripts/manual.py $(BUILD)/docs

install: all     ## Install the library and the command (PREFIX=/usr/local, DESTDIR)
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

uninstall:       ## Remove what was installed last from here
	@test -f "$(BUILD)/install_manifest.txt" || \
	  { echo "make uninstall: nothing was installed from $(BUILD)" >&2; exit 1; }
	@sed 's|^|$(DESTDIR)|' "$(BUILD)/install_manifest.txt" | xargs -d '\n' rm -f
	@sed -n 's|^\(.*/crema\)/.*|$(DESTDIR)\1|p' "$(BUILD)/install_manifest.txt" | sort -u | \
	  while IFS= read -r folder; do [ ! -d "$$folder" ] || find "$$folder" -type d -empty -delete; done
	@rm "$(BUILD)/install_manifest.txt"

test-onnx: all   ## Compare with ONNX Runtime and PyTorch, in a Python environment
	@scripts/test_onnx.sh $(BUILD)
	@ctest --preset release -L '^onnx$$' --verbose

torture: all     ## Kill, interrupt and starve training and the tools, for half an hour
	@cmake --build --preset release --target torture

asan tsan: deps  ## Build with sanitizers and test
	@cmake --preset $@ >/dev/null && cmake --build --preset $@ && ctest --preset $@ -j 2

test-arm64:      ## Build for 64-bit Arm; run the golden cases and C tests in qemu
	@scripts/setup.sh --arm64
	@cmake --preset arm64 >/dev/null && cmake --build --preset arm64
	@ctest --preset arm64 -j $$(nproc)

command: configure
	@cmake --build --preset release --target crema_cli

configure: deps
	@cmake --preset release >/dev/null

cuda: deps       ## Build with the CUDA plug-in (needs nvcc; cuDNN 9's headers help)
	@cmake --preset cuda >/dev/null
	@cmake --build --preset cuda

deps:
	@scripts/setup.sh

clean:           ## Remove all build folders
	@rm -rf build build-*

help:            ## Show this list
	@grep -hE '^[a-z0-9 -]+:.*##' Makefile | sed -E 's/^([a-z0-9 -]+):[^#]*## */  make \1\t/' | expand -t 24
