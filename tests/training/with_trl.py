"""Trains one step on exported rows with TRL's own trainers, as a reader of the file would write it: ``sft`` or ``grpo``.

Usage, in an environment that has TRL: ``python with_trl.py KIND ROWS MODEL TOKENIZER FOLDER``. Prints as JSON what it made of them.
"""

import json
import math
import sys

from datasets import Dataset, load_dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

GENERATIONS = 2
QUIET = {"max_steps": 1, "report_to": "none", "use_cpu": True, "bf16": False, "save_strategy": "no", "shuffle_dataset": False}


def sft(rows, model, tokenizer, folder):
    """Learn from what was sampled: one sequence a row, with labels where the mask is 1."""

    def sequence(row):
        return {"input_ids": row["prompt_ids"] + row["completion_ids"], "assistant_masks": [0] * len(row["prompt_ids"]) + row["mask"]}

    sequences = rows.map(sequence, remove_columns=rows.column_names)
    config = SFTConfig(output_dir=folder, per_device_train_batch_size=len(rows), max_length=None, **QUIET)
    trainer = SFTTrainer(model=model, args=config, train_dataset=sequences, processing_class=tokenizer)
    batch = trainer.data_collator(list(trainer.train_dataset))
    return {"labels": batch["labels"].tolist(), "loss": trainer.train().training_loss}


def grpo(rows, model, tokenizer, folder):
    """Learn from the rewards within each group; the rows stand for what the policy has just rolled out."""
    made = {}
    groups = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)

    def rollout(prompts, _):
        waiting = {group: iter(attempts) for group, attempts in groups.items()}
        chosen = [next(waiting[group]) for group in prompts]
        keys = {
            "prompt_ids": "prompt_ids",
            "completion_ids": "completion_ids",
            "logprobs": "logprobs",
            "env_mask": "mask",
            "reward": "reward",
        }
        made["group"] = prompts
        return {theirs: [row[ours] for row in chosen] for theirs, ours in keys.items()}

    class Watched(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            tensors = super()._generate_and_score_completions(inputs)
            for name in ("prompt_ids", "prompt_mask", "completion_ids", "tool_mask", "sampling_per_token_logps", "advantages"):
                made[name] = tensors[name].tolist()
            return tensors

    config = GRPOConfig(
        output_dir=folder, per_device_train_batch_size=len(rows), num_generations=GENERATIONS, max_completion_length=None, **QUIET
    )
    trainer = Watched(
        model=model,
        args=config,
        reward_funcs=lambda reward, **_: reward,
        rollout_func=rollout,
        train_dataset=Dataset.from_dict({"prompt": list(groups)}),
        processing_class=tokenizer,
    )
    made["loss"] = trainer.train().training_loss
    return made


def told(value):
    """The value with None for what is no number, which JSON cannot write."""
    if isinstance(value, list):
        return [told(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


if __name__ == "__main__":
    kind, file, weights, tokens, place = sys.argv[1:]
    made = {"sft": sft, "grpo": grpo}[kind](
        load_dataset("json", data_files=file, split="train", cache_dir=f"{place}/cache"),
        AutoModelForCausalLM.from_pretrained(weights),
        PreTrainedTokenizerFast(tokenizer_file=f"{tokens}/tokenizer.json", eos_token="<|im_end|>", pad_token="<|endoftext|>"),
        place,
    )
    print(json.dumps({key: told(value) for key, value in made.items()}))
