"""The numbers on the page as code that prints them again: Python, and commands."""

from __future__ import annotations

from sparsetoken.app.state import State
from sparsetoken.model.classifiers import Pooled, Vectorized
from sparsetoken.model.names import LOSSES, WEIGHTINGS


def as_python(state: State) -> str:
    """A script that prints what the page shows."""
    task = (
        f"task = st.Task(length={state.length}, sparsity={state.sparsity}, "
        f"strength={state.strength!r}, prevalence={state.prevalence!r}"
        + (f", token_correlation={state.token_correlation!r})" if state.token_correlation else ")")
    )
    rule = "" if state.weighting == "softmax" else f"st.{WEIGHTINGS.make(state.weighting)!r}"
    loss = f"st.{LOSSES.make(state.loss)!r}"
    lines = ["import sparsetoken as st", "", task]
    if state.view == "plan":
        lines += [
            f"advice = st.plan(task, dim={state.dim}, target_error={state.target!r}, "
            f"loss={loss}" + (f", weighting={rule})" if rule else ")"),
            "print(advice.headline)",
        ]
        return "\n".join(lines) + "\n"
    lines += [
        "protocol = st.Protocol(",
        f"    query_samples={state.query_samples!r}, readout_samples={state.readout_samples!r},",
        f"    loss={loss}, ridge={state.ridge!r}, readout_step={state.readout_step!r},",
        f"    bias_step={state.bias_step!r}, query_step={state.query_step!r},",
        ")",
    ]
    arguments = [f"weighting={rule}"] if rule else []
    if state.query == "frozen":
        arguments = [f"cosine={state.cosine!r}", f"sharpness={state.sharpness!r}", *arguments]
    attention = f"st.Attention({', '.join(arguments)})"
    linear = [each for each in (Vectorized(), Pooled()) if each.possible(state.task) is None]
    classifiers = ", ".join([attention, *(f"st.{each!r}" for each in linear)])
    if state.view == "alignment":
        lines.append("query = st.align(task, protocol)")
        lines.append('print(f"cosine {query.cosine:.6g}, sharpness {query.sharpness:.6g}")')
        return "\n".join(lines) + "\n"
    lines += [
        f"for classifier in ({classifiers}):",
        "    p = st.predict(task, classifier, protocol)",
        "    numbers = (p.test_error, p.auc, p.train_loss, p.train_error)",
        '    print(type(classifier).__name__.lower(), *(f"{x:.6g}" for x in numbers))',
    ]
    return "\n".join(lines) + "\n"


def as_command(state: State) -> str:
    """The same on the command line."""
    task = (
        f"--length {state.length} --sparsity {state.sparsity} --strength {state.strength!r} "
        f"--prevalence {state.prevalence!r}"
        + (f" --token-correlation {state.token_correlation!r}" if state.token_correlation else "")
    )
    rule = "" if state.weighting == "softmax" else f" --weighting {state.weighting}"
    if state.view == "plan":
        return (
            f"sparsetoken plan {task} --dim {state.dim} --target-error {state.target!r} "
            f"--loss {state.loss}{rule}"
        )
    words = (
        f"sparsetoken predict {task} --query-samples {state.query_samples!r} "
        f"--readout-samples {state.readout_samples!r} --loss {state.loss} --ridge {state.ridge!r} "
        f"--readout-step {state.readout_step!r} --bias-step {state.bias_step!r} "
        f"--query-step {state.query_step!r}"
    )
    if state.query == "frozen":
        words += f" --cosine {state.cosine!r} --sharpness {state.sharpness!r}"
    return words + rule + " --json"
