"""What each lesson asks, which recipes it runs, and what the runs showed."""

from dataclasses import dataclass

OPENING = """# Lessons

What every chapter on GRPO warns of, run on the built-in model in a minute or two each: a recipe in
`recipes/lessons`, three seeds, and what came out, also where it is not what a textbook expects.

All of it again, in under two hours on 2 cores, resumable run by run:

```sh
.venv/bin/python benchmarks/lessons.py
```

One arm alone: `rlvr train recipes/lessons/kl-0.5.toml --seed 0`. Each is 100 steps (200 where the
name says so) of 16 problems x 8 answers, variant `olmo3` unless the recipe says otherwise, learning
rate 3e-4 falling to 0. Accuracy is of 500 held-out problems at the last step, in percent. Other
numbers are means over the last ten steps. Each cell is the mean of seeds 0, 1 and 2, and in
brackets the lowest and the highest; bands in the plots run from the lowest to the highest.
Machine: 2 cores of an AMD EPYC (Zen 5), {machine},
other small work beside it; {total:.0f} minutes of runs, so {half:.0f} for all of it."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One warning of the textbook, as runs."""

    slug: str
    title: str
    asks: str
    arms: tuple[tuple[str, str], ...]
    """Label and recipe."""
    shows: tuple[str, ...]
    """Metrics in the table; the first is plotted too."""
    shown: str
    """What the runs showed."""


PLAIN = ("plain", "plain")

LESSONS = (
    Lesson(
        "thinking-banned",
        "Without thoughts there is nothing to learn",
        "A control: the token that opens a thought is never sampled, in training and evaluation.",
        (PLAIN, ("no thoughts", "thinking-banned")),
        ("text/think_ok", "reward/mean", "length/mean"),
        "Accuracy goes nowhere: 3% at the start without thoughts, 3% at the end, with the same "
        "reward as before. What plain training raises is the share of answers that think; answers "
        "given at once never get better.",
    ),
    Lesson(
        "random-reward",
        "A random reward teaches nothing",
        "A control: each answer's reward is a coin toss, so every group has a signal, all noise.",
        (PLAIN, ("coin toss", "random-reward")),
        ("text/think_ok", "reward/mean", "entropy/mean"),
        "No group is without a signal and nothing is learnt: the reward stays at one half, by "
        "definition. It is not harmless, either: the noise carries the policy away from the little "
        "it could do, from 14% sampled to below 1% in all three seeds.",
    ),
    Lesson(
        "format-alone",
        "Form alone is Goodhart's law",
        "Only the form is rewarded (0.5 for one whole thought before the answer), right or wrong.",
        (PLAIN, ("form alone", "format-alone")),
        ("reward/mean", "text/think_ok", "length/mean"),
        "The reward climbs to 0.48 of 0.5 in every seed, and nearly every answer thinks. "
        "Nobody asked for the thoughts to be right: sampled accuracy, 14% at the start, rises to "
        "15 to 19% while thoughts become common, then ends at 8, 15 and 0%. The curve that is "
        "optimised looks perfect throughout.",
    ),
    Lesson(
        "format-gates",
        "Form beside correctness: added, only if correct, first",
        "The three gates: `c + 0.5 f`, `c (1 + 0.5 f)`, and nothing without form (`0.1 + 0.9 c`).",
        (
            PLAIN,
            ("added", "format-added"),
            ("only if correct", "format-if-correct"),
            ("first", "format-first"),
        ),
        ("text/think_ok", "length/mean"),
        "All three end where correctness alone ends; the differences are within the spread of the "
        "seeds. The textbook's hack of an added format reward did not happen: right answers need "
        "thoughts here, so both rewards ask for the same. The gates cost nothing, and buy nothing.",
    ),
    Lesson(
        "learning-rate",
        "Ten times the learning rate",
        "3e-3 in place of 3e-4.",
        (PLAIN, ("ten times", "lr-times-10")),
        ("reward/mean", "entropy/mean", "groups/zero_std"),
        "The reward is gone by step 6 to 10, within 3 to 5 seconds, and does not come back: every "
        "group is wrong alike, so none has a signal and nothing is left to learn from. The "
        "gradient was clipped to length 1 all along: no help, since AdamW divides by its size.",
    ),
    Lesson(
        "clipping",
        "Four updates per batch, without and with clipping",
        "Each step's answers are used four times, so that ratios leave 1.",
        (
            ("one update", "plain"),
            ("four, unclipped", "updates-4-unclipped"),
            ("four, clip 0.2/0.272", "updates-4-clipped"),
            ("four, clip 0.05", "updates-4-tight"),
        ),
        ("ratio/max", "entropy/mean"),
        "Unclipped, sampled accuracy stalls at 44 to 71% between steps 40 and 60 (one update is at "
        "76 to 86% there) and ends lowest. Clipping cures it here: four clipped updates climb "
        "fastest (68 to 73% after 20 steps, where one update has 46 to 48%) and end a little above "
        "one update when sampling, a few points below it when greedy. A bound of 0.05 does the "
        "same as 0.2. The learning rate falls to 0, which repairs the unclipped runs late.",
    ),
    Lesson(
        "kl",
        "A divergence from the reference holds back",
        "k3 in the loss with coefficients 0, 0.05 and 0.5.",
        (("0", "plain"), ("0.05", "kl-0.05"), ("0.5", "kl-0.5")),
        ("text/think_ok", "kl_ref/k3", "entropy/mean"),
        "0.05 costs a few points. 0.5 holds the policy at about a third right: thoughts stop at "
        "44% of the answers, so the likeliest first token never becomes the thought, and greedy "
        "accuracy stays where it was. The divergence is smallest where it is weighed most.",
    ),
    Lesson(
        "zscore",
        "Z-score against centred advantages",
        "Dividing by the group's standard deviation makes easy and hard problems weigh more.",
        (("centred", "plain"), ("zscore", "zscore")),
        ("text/think_ok", "entropy/mean"),
        "No difference worth the name: about one point, with ranges that touch.",
    ),
    Lesson(
        "schedule",
        "A constant learning rate drifts late",
        "The learning rate falls to 0 or stays, over 200 steps.",
        (("falls to 0", "lr-linear-200"), ("stays", "lr-constant-200")),
        ("groups/zero_std", "entropy/mean"),
        "Both climb alike for 60 steps. Then most groups have no signal any more, and "
        "steps of full size on the few that do push the policy about: with a rate that stays, "
        "greedy accuracy falls again, from between 87 and 98% at step 60 to between 82 and 87%, "
        "and sampled accuracy with it; with one that falls to 0 both go on rising to the end.",
    ),
    Lesson(
        "kl-gradient",
        "The divergence of the book's script, and the right one",
        "Variant `book_ch7_kl` (two updates per batch, the whole answer as one action). The script "
        "takes the answer's summed log-ratio itself as the loss (k1), whose gradient is 0 on "
        "average and pushes every sampled token down once the policy has moved; half its square "
        "(k2) has the gradient of the divergence.",
        (("k1, as the script", "kl-script"), ("k2, right", "kl-right")),
        ("entropy/mean", "kl_ref/k3"),
        "The coefficient is 2. The right one holds the policy where it began: the divergence stays "
        "small and accuracy near the start. The script's lets it go: within 20 steps hardly an "
        "answer is right, answers run to the length limit, and the policy is 4 to 8 nats per token "
        "from the very reference that the term names. Entropy settles near 0.6, three times its "
        "low, not at that of noise. Where it is small it does nothing: at 0.5 (seed 0 alone) the "
        "script's ends at 88% sampled where the right one holds at 48%; at 0.05 both pass 89%.",
    ),
    Lesson(
        "pass-at-k",
        "Elicited, not taught: pass@k of the base beside pass@1 after",
        "16 sampled answers to each of the 1,000 held-out problems, before and after `plain`.",
        (),
        (),
        "16 tries of the base reach 78%; one try after training, 87 to 88%. What was rare has "
        "become the habit. The base's curve is still rising at 16, so this shows no ability that "
        "it lacked.",
    ),
)
