"""What an answer of the Responses API looks like: the message, how it ended, what it used.

Only the shape is known here; what the model wrote is given.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.model import Json
from stoker.sandbox.openai_requests import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the model wrote, and how many tokens that took."""

    text: str
    refusal: bool
    cut: bool  # it ran into max_output_tokens
    reasoning: int
    input: int
    output: int
    cached: int


def response_of(request: Request, written: Written, *, digest: str) -> Json:
    """Return the whole answer."""
    ended = "incomplete" if written.cut else "completed"
    output: list[Json] = []
    if written.reasoning:
        output.append({"id": f"rs_{digest[:32]}", "type": "reasoning", "summary": []})
    if written.text:
        output.append(
            {
                "id": f"msg_{digest[:32]}",
                "type": "message",
                "status": ended,
                "role": "assistant",
                "content": [_content(written)],
            }
        )
    return {
        "id": f"resp_{digest[:32]}",
        "object": "response",
        "created_at": 1_794_787_200,
        "status": ended,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if written.cut else None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": None,
        "model": request.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": request.effort, "summary": None},
        "service_tier": "default",
        "store": True,
        "temperature": request.temperature if request.temperature is not None else 1.0,
        "text": {"format": dict(request.format), "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": written.input,
            "input_tokens_details": {"cached_tokens": written.cached, "cache_write_tokens": 0},
            "output_tokens": written.output,
            "output_tokens_details": {"reasoning_tokens": written.reasoning},
            "total_tokens": written.input + written.output,
        },
        "user": None,
        "metadata": {},
    }


def _content(written: Written) -> Json:
    if written.refusal:
        return {"type": "refusal", "refusal": written.text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": written.text}
