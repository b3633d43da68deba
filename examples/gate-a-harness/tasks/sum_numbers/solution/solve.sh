#!/bin/bash
cd /app || exit 1
seq 5 > numbers.txt
echo 15 > sum.txt
