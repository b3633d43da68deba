#!/bin/bash
# The reward is 1 if both files hold what they should, 0 if not.
if [ "$(cat /app/numbers.txt 2>/dev/null)" = "$(seq 5)" ] && [ "$(cat /app/sum.txt 2>/dev/null)" = "15" ]; then
    reward=1
else
    reward=0
fi
echo "$reward" > /logs/verifier/reward.txt
