"""What signs and macros of typography show: the tables that the tokeniser reads."""


def word_set(words: str) -> frozenset[str]:
    """Words between blanks, as a set."""
    return frozenset(words.split())


GREEK = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma
    sigma tau upsilon phi chi psi omega
"""  # in the order of Unicode, where a second sigma ends words
SHOWN = {
    "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-",
    "\u00d7": r"\times ", "\u22c5": r"\cdot ", "\u00b7": r"\cdot ", "\u2219": r"\cdot ",
    "\u2022": r"\cdot ", "\u2217": "*", "\u00f7": r"\div ", "\u2044": "/", "\u2215": "/",
    "\u2264": r"\le ", "\u2265": r"\ge ", "\u2a7d": r"\le ", "\u2a7e": r"\ge ", "\u2266": r"\le ",
    "\u2267": r"\ge ", "\u2260": r"\ne ", "\u2248": r"\approx ", "\u2261": r"\equiv ",
    "\u00b1": r"\pm ", "\u2213": r"\mp ", "\u221e": r"\infty ", "\u221a": r"\sqrt ",
    "\u221b": r"\cbrt ", "\u2208": r"\in ", "\u2209": r"\notin ", "\u222a": r"\cup ",
    "\u2229": r"\cap ", "\u2216": r"\setminus ", "\u2205": r"\emptyset ", "\u2282": r"\subset ",
    "\u2286": r"\subseteq ", "\u00b0": r"^\circ ", "\u00ba": r"^\circ ", "\u2218": r"\circ ",
    "\u2032": "'", "\u2019": "'", "\u2018": "'", "\u02b9": "'", "\u2033": "''",
    "\u2223": r"\mid ", "\u2192": r"\to ", "\u21d2": r"\implies ",
    "\u2227": r"\land ", "\u2228": r"\lor ", "\u2026": r"\ldots ", "\u22ef": r"\ldots ",
    "\u211d": r"\mathbb{R}", "\u2124": r"\mathbb{Z}", "\u2115": r"\mathbb{N}",
    "\u211a": r"\mathbb{Q}", "\u2102": r"\mathbb{C}", "\u2211": r"\sum ", "\u220f": r"\prod ",
    "\u222b": r"\int ", "\u2220": r"\angle ", "\u25b3": r"\triangle ", "\u22a5": r"\perp ",
    "\u2225": r"\parallel ", "\u230a": r"\lfloor ", "\u230b": r"\rfloor ", "\u2308": r"\lceil ",
    "\u2309": r"\rceil ", "\u27e8": r"\langle ", "\u27e9": r"\rangle ", "\u212f": "e",
    "\u201c": '"', "\u201d": '"', "\uff0c": ",", "\u3001": ",", "\uff1b": ";", "\uff1a": ":",
    "\u3002": ".", "\u00a0": "~", "\u2009": "~", "\u202f": "~", "\u2007": "~", "\u2006": "~",
    "\u00ac": r"\lnot ", "\u2200": r"\forall ", "\u2203": r"\exists ", "\u2236": ":",
    "\u00a3": r"\pounds ", "\u20ac": r"\euro ", "\u00a5": r"\yen ", "\u00a2": r"\cents ",
    "\u20b9": r"\rupees ", "\u02da": r"^\circ ", "\u2206": r"\Delta ", "\u2031": "",
    "\u00b5": r"\mu ",
}  # fmt: skip
SHOWN |= {chr(0x3B1 + place): f"\\{name} " for place, name in enumerate(GREEK.split())}
SHOWN |= {
    chr(0x391 + place): f"\\{name.capitalize()} "
    for place, name in enumerate(GREEK.split())
    if chr(0x391 + place).isalpha()
}
SHOWN |= {"\u03d1": r"\theta ", "\u03d5": r"\phi ", "\u03f5": r"\epsilon ", "\u2126": r"\Omega "}


# Macros that are only style or space, and how they go away.
NOTHING = word_set(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle "
    "displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits quad qquad "
    "enspace thinspace medspace thickspace negthinspace hfill nonumber notag rm bf it sf tt "
    "boldmath bm tiny scriptsize footnotesize small normalsize large Large LARGE huge Huge"
)
TEXT = word_set("text textbf textit textrm textsf texttt textnormal textup mbox hbox emph textsc")
STYLE = word_set(
    "mathrm mathbf mathit mathsf mathtt mathnormal boldsymbol pmb underline uline mathop "
    "operatorname mathopen mathclose mathord mathbin mathrel mathinner ensuremath smash boxed "
    "fbox bold color textcolor underbrace overbrace mathcal mathscr mathfrak hspace "
    "vspace"
)
SAME = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "leq": "le", "leqslant": "le", "geq": "ge",
    "geqslant": "ge", "leqq": "le", "geqq": "ge", "neq": "ne", "lt": "<", "gt": ">", "ast": "*",
    "degree": "circ", "degrees": "circ", "dbinom": "binom", "tbinom": "binom", "rbrace": "}",
    "lbrace": "{", "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")", "colon": ":",
    "vert": "|", "lvert": "|", "rvert": "|", "Vert": "\\|", "lVert": "\\|", "rVert": "\\|",
    "varnothing": "emptyset", "dots": "ldots", "cdots": "ldots", "dotsc": "ldots",
    "dotsb": "ldots", "vdots": "ldots", "ddots": "ldots", "varepsilon": "epsilon",
    "varphi": "phi", "vartheta": "theta", "varrho": "rho", "varsigma": "sigma", "bmod": "mod",
    "wedge": "land", "vee": "lor", "backslash": "setminus", "smallsetminus":
    "setminus", "rightarrow": "to", "longrightarrow": "to", "Rightarrow": "implies",
    "Longrightarrow": "implies", "iff": "iff", "Leftrightarrow": "iff", "prime": "'",
    "dag": "dagger", "lg": "lg", "tg": "tan", "ctg": "cot", "cosec": "csc", "arctg": "arctan",
    "thinspace": "", "Reals": "reals", "slash": "/", "div": "div", "sdot": "cdot", "bullet": "cdot",
    "mathellipsis": "ldots", "textdegree": "circ", "textdollar": "dollars", "dollar": "dollars",
    "percent": "%", "nobreakspace": "", "lnot": "lnot", "neg": "lnot", "imath": "i", "jmath": "j",
    "textpounds": "pounds", "texteuro": "euro", "cent": "cents", "infin": "infty",
}  # fmt: skip
SIGNS = {"le": "<=", "ge": ">=", "ne": "!=", "times": "*", "cdot": "*", "div": "/"}

# Names that plain text writes without a backslash.
NAMED = {
    "sqrt": "sqrt", "cbrt": "cbrt", "sin": "sin", "cos": "cos", "tan": "tan", "sec": "sec",
    "csc": "csc", "cot": "cot", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asin": "arcsin",
    "acos": "arccos", "atan": "arctan", "arcsin": "arcsin", "arccos": "arccos",
    "arctan": "arctan", "arccot": "arccot", "arcsec": "arcsec", "arccsc": "arccsc", "ln": "ln",
    "log": "log", "exp": "exp", "pi": "pi", "infinity": "infty", "inf": "infty", "oo": "infty",
    "abs": "abs", "Abs": "abs", "floor": "floor", "ceil": "ceil", "ceiling": "ceil", "gcd": "gcd",
    "lcm": "lcm", "max": "max", "min": "min", "mod": "mod", "binomial": "binom", "binom": "binom",
    "factorial": "factorial", "cosec": "csc", "Infinity": "infty", "Pi": "pi", "PI": "pi",
    "alpha": "alpha", "beta": "beta", "gamma": "gamma", "delta": "delta", "theta": "theta",
    "lambda": "lambda", "phi": "phi", "omega": "omega", "sigma": "sigma", "epsilon": "epsilon",
    "tau": "tau", "rho": "rho", "psi": "psi", "union": "cup", "Union": "cup",
    "EmptySet": "emptyset", "emptyset": "emptyset", "plusminus": "pm", "asinh": "arsinh",
    "acosh": "arcosh",     "atanh": "artanh", "det": "det", "lg": "lg", "E": "E", "sgn": "sgn",
    "log10": "log10", "log2": "log2",
}  # fmt: skip


def is_run(letters: str) -> bool:
    """Whether letters side by side are variables: two of them, or neighbours in the alphabet."""
    return len(letters) < 3 or "".join(sorted(letters)) in "abcdefghijklmnopqrstuvwxyz"
