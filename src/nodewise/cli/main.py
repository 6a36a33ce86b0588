"""The command `nodewise`: its list of commands, and where errors become exit codes."""

import importlib
import os
import sys

import click

from nodewise import __version__
from nodewise.errors import NodewiseError, printable

# Name -> one line of help. A command's module is imported when it is called, so `--help` is quick.
COMMANDS = {
    "init": "Write a commented spec of a scaling study.",
    "measure": "Run the job of a spec at several scales, in rounds, into a study folder.",
    "study": "Measure, attribute and decide in one command.",
    "trace": "Where the time of one job went, from its profiler's traces: compute, waits, idle.",
    "import": "A study from traces and logs of other tools: Kineto, Nsight, TALP, Ray and more.",
    "scale": "Speedup, efficiency, the bend, the knee and the laws of a table of timings.",
    "attribute": "The cause of every lost fold of speedup, and the change that would help.",
    "decide": "The price of every scale and the one to run at, with the reason.",
    "diagnose": "Name the ceiling of a program, or of a job on paper, and the axis that lifts it.",
    "machine": "Measure this node's ceilings: arithmetic, memory, disk, links.",
    "roofline": "A step on paper: compute or memory bound, and would the network dominate?",
    "predict": "T(K) at scales nobody ran, with intervals, and where the cheapest K lies.",
    "next": "The one further run that is worth its money, or that none is.",
    "report": "One page with verdict, charts, checks and the study inside: .html, .md, .pdf.",
    "plot": "One chart of the report as SVG, PNG or PDF, for a paper or a slide.",
    "table": "One table of the report as Markdown, LaTeX or CSV.",
    "audit": "Is this scaling claim honest? The rules, over a study or somebody's table.",
    "export": "A study as one bundle: runs, spec, environment, tables, plots, checksums.",
    "rerun": "Repeat the study of a bundle, and say scale by scale whether it agrees.",
    "compare": "Two studies side by side, with the difference and its interval.",
    "ui": "A local page of all studies, live while they are measured.",
    "plan": "The knee on paper: step time, memory and cost of a transformer before any run.",
    "fleet": "Replicas of a server under real load, and how many make a token cheapest.",
    "doctor": "What can be measured on this machine, and what to do about the rest.",
    "simulate": "A table with a planted truth, to learn on and to plan rounds with.",
}


class _Commands(click.Group):
    """A group that knows its commands by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"nodewise.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try: nodewise decide timings.csv --price 3.20   (columns K,time_s; more in the README)",
)
@click.version_option(__version__, prog_name="nodewise")
def nodewise() -> None:
    """How many nodes is this job worth, and why not more?

    Measure, attribute, decide: hand in a CSV of timings and get the scaling table, the cause of
    every lost fold of speedup, the price of each scale and a recommendation.
    """


def main() -> None:
    """Run a command; errors are two lines on stderr, never a traceback."""
    try:
        code = nodewise.main(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code or 0)
    except NodewiseError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except click.ClickException as error:
        command = (
            error.ctx.command_path
            if isinstance(error, click.UsageError) and error.ctx
            else "nodewise"
        )
        click.echo(f"nodewise: {_one_line(error.format_message())}", err=True)
        click.echo(f"  fix: See {command} --help.", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("nodewise: stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python must not complain at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _one_line(message: str) -> str:
    return printable(" ".join(message.split()))
