"""The fields of a chat request that an engine knows: OpenAI's, and those of vLLM's and SGLang's chat routes. No other goes to the engine.

https://platform.openai.com/docs/api-reference/chat/create and vLLM's ``ChatCompletionRequest``; a field that only one version of vLLM
has is here, because to leave it out would change what is sampled.
"""

from __future__ import annotations

OPENAI = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)

VLLM = frozenset(
    {
        "add_generation_prompt",
        "add_special_tokens",
        "allowed_token_ids",
        "bad_words",
        "best_of",
        "cache_salt",
        "chat_template",
        "chat_template_kwargs",
        "continue_final_message",
        "documents",
        "ec_transfer_params",
        "echo",
        "guided_choice",
        "guided_decoding_backend",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "guided_whitespace_pattern",
        "ignore_eos",
        "include_reasoning",
        "include_stop_str_in_output",
        "kv_transfer_params",
        "length_penalty",
        "logits_processors",
        "logprob_token_ids",
        "media_io_kwargs",
        "min_p",
        "min_tokens",
        "mm_processor_kwargs",
        "priority",
        "prompt_logprobs",
        "repetition_detection",
        "repetition_penalty",
        "request_id",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "stop_token_ids",
        "structural_tag",
        "structured_outputs",
        "thinking_token_budget",
        "top_k",
        "truncate_prompt_tokens",
        "truncation_side",
        "use_beam_search",
        "vllm_xargs",
    }
)

SGLANG = frozenset(
    {"custom_logit_processor", "ebnf", "grammar", "guided_json_object", "json_schema", "no_stop_trim", "regex", "separate_reasoning"}
)
"""Its own ways to constrain and cut the sampling, which the sampling policy marks or refuses: it must be able to see them take effect."""

KNOWN = OPENAI | VLLM | SGLANG
