#!/bin/sh
# Prints the man page of the command in roff, made of its help. Usage: man_page.sh CREMA
set -eu
crema=$1

# Text as it is: backslashes and control characters at the start of a line are escaped.
verbatim() {
  echo ".nf"
  sed -e 's/\\/\\e/g' -e "s/^[.']/\\\\\\&&/" -e 's/-/\\-/g'
  echo ".fi"
}

echo ".TH CREMA 1 \"\" \"$("$crema" version)\""
echo ".SH NAME"
echo "crema \\- train, test and run Caffe networks"
echo ".SH SYNOPSIS"
echo ".B crema"
echo "COMMAND [arguments] [flags]"
echo ".SH COMMANDS"
"$crema" help | sed '1,4d' | verbatim
for name in $("$crema" help | sed -n '/^Topics:/q; s/^  \([a-z_]*\) .*/\1/p'); do
  echo ".SH CREMA $name" | tr 'a-z_' 'A-Z '
  "$crema" help "$name" | verbatim
done
for name in $("$crema" help | sed -n '1,/^Topics:/d; s/^  \([a-z_]*\) .*/\1/p'); do
  echo ".SH $name" | tr 'a-z_' 'A-Z '
  "$crema" help "$name" | verbatim
done
