"""The command `nodewise`: its list of commands, and where errors become exit codes."""

import atexit
import gc
import importlib
import os
import signal
import sys
from types import FrameType

import click

from nodewise import __version__
from nodewise.base.errors import DataError, NodewiseError, printable
from nodewise.study.files import NotRegularError

# Section -> name -> one line of help. A command's module is imported when it is called, so `--help`
# is quick.
SECTIONS = {
    "Measure": {
        "run": "Run a command at several scales; say which scale pays, and why.",
        "doctor": "What can be measured on this machine, and how to get the rest.",
        "init": "Write a commented spec of a scaling study.",
        "study": "Measure, attribute and decide in one command.",
        "measure": "Run the job of a spec at several scales into a study folder.",
        "import": "Make a study from files of other tools: traces, logs, tables.",
        "simulate": "Write a simulated table with known causes, to learn or test.",
    },
    "Explain": {
        "scale": "Speedup and efficiency, the bend, the knee, the fitted laws.",
        "attribute": "The causes of lost speedup, and the change that would help.",
        "trace": "Where the time of one job went, from profiler traces.",
        "diagnose": "What limits a program or a planned job, and what helps.",
        "machine": "This node's ceilings: arithmetic, memory, disk, links.",
        "roofline": "What limits a step, computed from its operations and bytes.",
        "compare": "Two studies side by side, with the difference at each K.",
        "history": "Studies over time: what became slower, since when, and why.",
        "audit": "Is this scaling claim honest? Checks of any table or study.",
    },
    "Decide": {
        "decide": "The cost of every scale, and the recommended one with reasons.",
        "predict": "T(K) at scales that were not run, and the cheapest K.",
        "next": "The next run worth its cost, or the advice to stop.",
        "plan": "How many nodes a transformer is worth, before any run.",
        "fleet": "How many server replicas give the lowest cost per token.",
    },
    "Show": {
        "report": "One page with verdict, charts, checks and the study inside.",
        "plot": "One chart of the report as SVG, PNG or PDF.",
        "table": "One table of the report as Markdown, LaTeX or CSV.",
        "ui": "A local page of all studies, live while they are measured.",
        "dossier": "The scaling part of an application for computing time.",
        "export": "A study as one bundle with spec, runs, plots and checksums.",
        "rerun": "Repeat the study of a bundle, and compare the results at each K.",
        "help": "Help on a command; the inputs of a question: help inputs.",
    },
}
COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}
_WIDTH = max(map(len, COMMANDS))
_EXIT_CODES = (
    "Exit codes: 0 success, 1 a gate is not met, 2 spec or arguments, 3 a run failed, 4 data."
)


class _Commands(click.Group):
    """A group that knows its commands by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(cmd_name, COMMANDS, 1)
            if near and not ctx.resilient_parsing:
                raise click.UsageError(f"No such command '{cmd_name}'. Is it {near[0]}?", ctx)
            return None
        module = importlib.import_module(f"nodewise.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(_WIDTH), line) for name, line in commands.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{_EXIT_CODES} Every command has its own --help, with examples.",
)
@click.version_option(__version__, prog_name="nodewise")
def nodewise() -> None:
    """How many nodes is this job worth, and why not more?

    Measure, explain, decide: name a job or a CSV file of its timings. You get the recommended
    scale, the causes of lost speedup and the price of each scale.

    \b
    Begin with one of:
      nodewise decide timings.csv --price 3.20     for timings you have: columns K,time_s
      nodewise run -n 1,2,4,8 -- python train.py   to measure a job
      nodewise doctor                              to see what can be measured here
    """


def main() -> None:
    """Run a command; errors are two lines on stderr, never a traceback."""
    _collect_less()
    _stop_cleanly()
    try:
        code = nodewise.main(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code or 0)
    except NodewiseError as error:
        click.echo(NodewiseError.__str__(error), err=True)  # both lines, also of a `NoTime`
        sys.exit(error.exit_code)
    except NotRegularError as error:
        refused = DataError(
            f"Cannot use {error.filename}: {error.strerror}.",
            "Remove it, or name another folder: a study holds regular files only.",
        )
        click.echo(str(refused), err=True)
        sys.exit(refused.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except click.ClickException as error:
        command = (
            error.ctx.command_path
            if isinstance(error, click.UsageError) and error.ctx
            else "nodewise"
        )
        click.echo(f"nodewise: {_one_line(_message(error))}", err=True)
        click.echo(f"  fix: See {command} --help.", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("nodewise: stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python must not complain at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _collect_less() -> None:
    """Look for unused objects more rarely, and not at the end: what is imported stays in use."""
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)


def _stop_cleanly() -> None:
    """Stop as for Ctrl-C when a scheduler or a lost terminal ends us: no process is left."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores the second
            signal.signal(number, _as_ctrl_c)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do; a shell that starts us in the background has that one ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.default_int_handler(number, frame)
    os.kill(os.getpid(), signal.SIGINT)


def _message(error: click.ClickException) -> str:
    """The message of click; for an unknown option, it suggests a similar one only."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    from difflib import get_close_matches

    names = {option.lstrip("-"): option for option in error.possibilities or ()}
    near = get_close_matches(error.option_name.lstrip("-"), names, 1)
    return f"{error.message} Is it {names[near[0]]}?" if near else error.message


def _one_line(message: str) -> str:
    return printable(" ".join(message.split()))
