#!/bin/bash
# Records that crema writes are read by others, and theirs by crema: LMDB through mdb_dump and
# mdb_load, LevelDB through Python's plyvel, Datum by a parser of its own. What is missing on the
# machine (Debian: lmdb-utils, python3-plyvel) is named and left out.
. "$(dirname "$0")/../cli/lib.sh"
other=$source_dir/tests/data/interchange.py

plyvel=
for python in python3 /usr/bin/python3; do
  [ -n "$plyvel" ] || ! "$python" -c 'import plyvel' 2>/dev/null || plyvel=$python
done
lmdb=$(command -v mdb_dump && command -v mdb_load) || lmdb=
[ -n "$lmdb" ] || echo "SKIPPED: interchange of LMDB, as there is no mdb_dump or mdb_load"
[ -n "$plyvel" ] || echo "SKIPPED: interchange of LevelDB, as there is no python3-plyvel"
[ -n "$lmdb$plyvel" ] || exit 77

python3 "$other" pictures pictures || fail "no pictures"
printf '\242\006\003\012\001x' >none.caffemodel # a layer named x without parameters

# features BACKEND SOURCE: all pixels that a Data layer makes of a database, as an LMDB.
features() {
  cat >features.prototxt <<NET
name: "features"
layer {
  name: "in" type: "Data" top: "data" top: "label"
  data_param { source: "$2" batch_size: 23 backend: $1 }
}
NET
  rm -rf features_lmdb
  run extract_features none.caffemodel features.prototxt data features_lmdb 1 lmdb
  expect_ok "features of $2"
}

# stats SOURCE: what crema sees in a database of the records.
stats() {
  run data_stats "$1"
  expect_ok "what is in $1"
  expect_line "what is in $1" '23 records, [0-9]+ bytes; 0 encoded, 0 damaged'
  expect_line "what is in $1" 'Shape 3 x 6 x 9: 23'
  expect_line "what is in $1" 'Label 66: 1'
}

run convert_imageset pictures pictures/list.txt ours_lmdb
expect_ok "convert_imageset"
run convert_imageset -backend leveldb pictures pictures/list.txt ours_leveldb
expect_ok "convert_imageset to LevelDB"

if [ -n "$lmdb" ]; then
  mdb_dump ours_lmdb >ours.dump || fail "mdb_dump cannot read ours_lmdb"
  python3 "$other" check ours.dump || fail "the LMDB holds something else than the pictures"
  mkdir theirs_lmdb
  python3 "$other" dump | mdb_load theirs_lmdb || fail "mdb_load"
  stats theirs_lmdb
  features LMDB theirs_lmdb
  mdb_dump features_lmdb >features.dump
  python3 "$other" check-floats features.dump || fail "pixels of theirs_lmdb"
fi

if [ -n "$plyvel" ]; then
  "$plyvel" "$other" leveldb-check ours_leveldb || fail "the LevelDB holds something else"
  "$plyvel" "$other" leveldb theirs_leveldb || fail "plyvel cannot write"
  stats theirs_leveldb
  features LEVELDB theirs_leveldb
  if [ -n "$lmdb" ]; then
    mdb_dump features_lmdb >features.dump
    python3 "$other" check-floats features.dump || fail "pixels of theirs_leveldb"
  fi
fi

finish
