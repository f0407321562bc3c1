#!/bin/bash
# Another folder of lifecycle scripts, for the test that its name is read.
set -euo pipefail
