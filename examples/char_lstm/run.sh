#!/bin/sh
# Trains an LSTM to predict the next letter of a text: run.sh [flags of crema train]. TEXT is a file, or lists files,
# separated by blanks. The default is the documents of the project.
. "$(dirname "$0")/../common.sh"
if [ ! -e "$work/test_lmdb" ]; then
  if [ -e "${TEXT:-}" ]; then
    python3 "$here/text_to_images.py" "$work/images" "$TEXT"
  else
    # shellcheck disable=SC2086
    python3 "$here/text_to_images.py" "$work/images" ${TEXT:-"$root"/docs/*.md}
  fi
  for part in train test; do
    rm -rf "$work/${part}_lmdb"
    "$crema" convert_imageset -gray "$work/images" "$work/images/$part.txt" "$work/${part}_lmdb"
  done
fi
cd "$work"
cp "$here/train_val.prototxt" "$here/solver.prototxt" .
exec "$crema" train -solver solver.prototxt "$@"
