package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// headingKey is the annotation of a flag with its heading in --help.
const headingKey = "heading"

// heading assigns a heading of --help to all flags that are added before the returned function is called.
func heading(flags *pflag.FlagSet, title string) (end func()) {
	before := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	return func() {
		flags.VisitAll(func(f *pflag.Flag) {
			if before[f.Name] || f.Annotations[headingKey] != nil {
				return
			}
			if f.Annotations == nil {
				f.Annotations = map[string][]string{}
			}
			f.Annotations[headingKey] = []string{title}
		})
	}
}

// notNeeded begins the description of a flag that is accepted so that installations made for Karpenter start. --help does not list it.
const notNeeded = "accepted, not needed: "

// hideNotNeeded hides these flags in --help.
func hideNotNeeded(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || strings.HasPrefix(f.Usage, notNeeded) })
}

// commandGroups returns the headings of tenon --help, and the commands below each.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"look", "Look at a cluster:", []*cobra.Command{newNodes(), newPlan(), newExplain(), newSavings(), newJournal(), newDashboard(), newSnapshot()}},
		{"try", "Try before it counts:", []*cobra.Command{newSimulate(), newTrace(), newPlayground(), newDemo()}},
		{"install", "Install, migrate and remove:", []*cobra.Command{newDoctor(), newConvert(), newCRDs(), newUninstall()}},
		{"program", "The program itself:", []*cobra.Command{newController(), newBench(), newVersion()}},
	}
}

type commandGroup struct {
	id, title string
	commands  []*cobra.Command
}

// addCommands adds all commands to the root, in groups.
func addCommands(root *cobra.Command) {
	for _, g := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			hideNotNeeded(c.Flags())
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("program")
	root.SetHelpCommand(newHelp())
}

// newHelp returns cobra's command help, except that an unknown name is an error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Describe a command and its flags",
		GroupID: "program",
		RunE: func(command *cobra.Command, args []string) error {
			of, rest, err := command.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return fmt.Errorf("%s has no command %q (see %[1]s --help)", of.CommandPath(), rest[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// writeUsage writes cobra's text about a command, with the flags under headings.
func writeUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " [command]")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		writeCommands(&b, c)
	}
	for _, section := range flagSections(c) {
		fmt.Fprintf(&b, "\n\n%s:\n%s", section.title, strings.TrimRight(section.flags.FlagUsages(), "\n"))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more about a command.", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String()+"\n")
	return err
}

// writeCommands lists the commands below c, by group if there are groups.
func writeCommands(b *strings.Builder, c *cobra.Command) {
	groups := c.Groups()
	if len(groups) == 0 {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	for _, group := range groups {
		b.WriteString("\n\n" + group.Title)
		for _, sub := range c.Commands() {
			if sub.GroupID == group.ID && (sub.IsAvailableCommand() || sub.Name() == "help") {
				b.WriteString(fmt.Sprintf("\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short))
			}
		}
	}
}

// flagSection is one heading with its flags.
type flagSection struct {
	title string
	flags *pflag.FlagSet
}

// flagSections returns the flags in --help: first the flags without a heading, then the headings in alphabetical order.
func flagSections(c *cobra.Command) []flagSection {
	var sections []flagSection
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		title := "Flags"
		if under := f.Annotations[headingKey]; under != nil {
			title = under[0]
		}
		i := slices.IndexFunc(sections, func(s flagSection) bool { return s.title == title })
		if i < 0 {
			i = len(sections)
			sections = append(sections, flagSection{title, pflag.NewFlagSet(title, pflag.ContinueOnError)})
		}
		sections[i].flags.AddFlag(f)
	})
	slices.SortFunc(sections, func(a, b flagSection) int { return strings.Compare(a.title, b.title) }) // Flags comes before Flags of …
	return sections
}
