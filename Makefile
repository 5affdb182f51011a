# The two commands of the README; CMake does the work.
BUILD ?= build
CMAKE_FLAGS ?=
RUN2 = OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
       mpirun --oversubscribe --bind-to none -n 2

.PHONY: all install build quickstart test format tidy docs clean

all: build

install:
	@tools/install.sh

build: install
	@cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	@ninja -C $(BUILD) --quiet

quickstart: build
	$(RUN2) $(BUILD)/zeroth train examples/quickstart/train.json
	$(BUILD)/zeroth generate runs/quickstart --prompt "ROMEO:" --max-new-tokens 300 --temperature 0.8 --seed 1

test: build
	@cd $(BUILD) && ctest --output-on-failure --timeout 600

format:
	clang-format-14 -i $$(git ls-files '*.c' '*.h' | grep -v unicode_tables)

tidy: build
	clang-tidy-14 -p $(BUILD) --quiet $$(git ls-files 'src/*.c' | grep -v 'cpu/avx\|cpu/plain') 2>/dev/null

docs: build
	$(BUILD)/zeroth info --format markdown >docs/config.md

clean:
	rm -rf $(BUILD)
