"""Notation and algebra that once was not read, or was left to sympy: each with its near misses."""

import pytest

from rlvr.verify.equal import no_prover
from rlvr.verify.verdict import compare


def verdict(reference: str, answer: str) -> str:
    """The verdict without any prover behind the normal forms."""
    return compare(reference, answer, no_prover).verdict


SAME = r"""
2^x                 ## e^{x\ln2}
2^x                 ## e^{\ln(2)x}
2^{3x}              ## e^{3x\ln 2}
(1/2)^x             ## e^{-x\ln 2}
x^x                 ## e^{x\ln x}
a^{\log_b c}        ## c^{\log_b a}
3^{\log_2 n}        ## n^{\log_2 3}
4^{\log_2 n}        ## n^2
10^{\log_{10} x}    ## x
100^{\log_{10} x}   ## x^2
(x+1)^{\ln y}       ## y^{\ln(x+1)}
x^{yz}              ## (x^y)^z
\ln\sqrt{x+1}       ## \frac12\ln(x+1)
\cos(\arcsin x)     ## \sqrt{1-x^2}
\sin(\arccos x)     ## \sqrt{1-x^2}
\sin(\arctan x)     ## \frac{x}{\sqrt{1+x^2}}
\tan(\arccos x)     ## \frac{\sqrt{1-x^2}}{x}
\sin(2\arctan x)    ## \frac{2x}{1+x^2}
3+4i                ## 5e^{i\arctan(4/3)}
i^i                 ## e^{-\pi/2}
\binom nk           ## \binom{n}{n-k}
\max(a,b)           ## \max(b,a)
\max(a,b,c)         ## \max(c,a,b)
\max(1,x,2)         ## \max(x,2)
\gcd(a,b)           ## \gcd(b,a)
\max(x,y)+\min(x,y) ## x+y
\max(\sqrt2,1)      ## \sqrt2
\lfloor x+1\rfloor  ## \lfloor x\rfloor+1
(x+1)^{200}         ## ((x+1)^2)^{100}
(-1)^{2n}           ## 1
|3+4i|              ## 5
|1+i|               ## \sqrt2
|\cos1+i\sin1|      ## 1
\left|\frac{1+i}{2-i}\right| ## \sqrt{2/5}
2^{ix}              ## \cos(x\ln2)+i\sin(x\ln2)
\frac{1+|x|}{2}     ## \frac12+\frac{|x|}2
\frac{x+y+|x-y|}{2} ## \max(x,y)
\frac{2+|x-1|}{3}   ## \frac{|1-x|+2}{3}
\frac{x|x|}{2}      ## \frac12x|x|
||x|-1|             ## |1-|x||
|x+|y||             ## ||y|+x|
\{x : |x|<2\}       ## (-2,2)
\{x\mid |x|<2\}     ## (-2,2)
{3\over 4}          ## 3/4
1+{3\over 4}        ## \frac74
2{3\over 4}         ## \frac{11}{4}
{a+b\over c+d}      ## \frac{a+b}{c+d}
{1\over{1\over x}}  ## x
\sqrt{a\over b}     ## \sqrt{\frac ab}
{n\choose 2}        ## \frac{n(n-1)}{2}
{10\choose 3}       ## 120
2{4\choose 2}       ## 12
5!!                 ## 15
6!!                 ## 48
0!!                 ## 1
(2n+1)!!            ## (1+2n)!!
\max\{1,2\}         ## 2
\min\{x,y\}         ## \min(y,x)
\gcd\{4,6\}         ## 2
\large 18           ## 18
\Large\mathbf{18}   ## 18
12{}                ## 12
{}12                ## 12
x{}^2               ## x^2
\lceil -x\rceil      ## -\lfloor x\rfloor
"""
OTHER = r"""
2^x                 ## e^{x\ln3}
x^x                 ## e^{x\ln 2}
a^{\log_b c}        ## c^{\log_a b}
3^{\log_2 n}        ## n^{\log_3 2}
10^{\log_{10} x}    ## x^2
10^{\log_2 x}       ## x
(x+1)^{\ln y}       ## y^{\ln(x+2)}
\cos(\arcsin x)     ## \sqrt{1+x^2}
\sin(\arctan x)     ## \frac{1}{\sqrt{1+x^2}}
3+4i                ## 5e^{i\arctan(3/4)}
i^i                 ## e^{\pi/2}
x^{yz}              ## x^{y+z}
\binom nk           ## \binom{n+1}k
\binom nk           ## \binom kn
\max(a,b)           ## \min(a,b)
\max(a,b,c)         ## \max(a,b,d)
\max(1,x,2)         ## \max(x,1)
\max(x,y)+\min(x,y) ## x-y
\gcd(a,b)           ## \text{lcm}(a,b)
a\bmod b            ## b\bmod a
\log_2 3            ## \log_2 3.0000001
x                   ## \tanh(1000)x
1                   ## \tanh(1000)
2^{1000000}         ## 2^{1000000}+1
\lfloor x\rfloor+1  ## \lceil x\rceil
(x+1)^{200}         ## ((x+1)^2)^{101}
(-1)^{2n+1}         ## 1
|3+4i|              ## 7
|3+4i|              ## 3+4i
\frac{1+|x|}{2}     ## \frac{1+x}{2}
\frac{x+y+|x-y|}{2} ## \frac{x+y-|x-y|}{2}
\frac{x|x|}{2}      ## \frac{x^2}{2}
{3\over 4}          ## 4/3
2{3\over 4}         ## \frac32
{n\choose 2}        ## \frac{n(n+1)}{2}
{10\choose 3}       ## 10/3
5!!                 ## 120
(5!)!               ## 15
(2n+1)!!            ## (2n+1)!
\max\{1,2\}         ## 1
\max\{1,2\}         ## \{1,2\}
\large 18           ## 8
\Large\mathbf{18}   ## 1
{}12                ## 2
x{}^2               ## 2x
\lceil x\rceil      ## -\lfloor x\rfloor
2^{1000000}x        ## (2^{1000000}+1)x
x(1+10^{-300})      ## x
"""


def pairs(table: str) -> list[tuple[str, str]]:
    """The two sides of each line."""
    lines = [line.split("##") for line in table.strip().splitlines()]
    return [(left.strip(), right.strip()) for left, right in lines]


@pytest.mark.parametrize(("reference", "answer"), pairs(SAME))
def test_these_mean_the_same(reference: str, answer: str) -> None:
    assert verdict(reference, answer) == "correct"
    assert verdict(answer, reference) == "correct"


@pytest.mark.parametrize(("reference", "answer"), pairs(OTHER))
def test_these_do_not(reference: str, answer: str) -> None:
    assert verdict(reference, answer) == "incorrect"
    assert verdict(answer, reference) == "incorrect"


@pytest.mark.parametrize(
    "answer",
    ["{}", r"\frac{}{2}", "2^{}", "5-{}", "5!!!", r"{1\over 2\over 3}", r"\large", "2{}3"],
)
def test_these_are_no_answers(answer: str) -> None:
    assert verdict("2", answer) == "could not judge"
