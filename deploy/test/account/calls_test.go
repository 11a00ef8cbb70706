package accounttest

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"tenon.sh/provider/aws/cloud"
)

// sdk is what the packages of AWS's services begin with.
const sdk = "github.com/aws/aws-sdk-go-v2/service/"

// withoutCall lists what the controller has to be allowed although nothing in the program calls it.
func withoutCall() map[string]string {
	return map[string]string{
		"iam:PassRole":           "whoever puts a role into an instance profile, or starts a machine with one, passes the role on",
		"iam:TagInstanceProfile": "an instance profile is made with its tags",
	}
}

// ofPeople lists what people's commands call, with rights of their own.
func ofPeople() map[string]string {
	return map[string]string{
		"ec2:DeleteTags":         "tenon uninstall --keep-machines lets go of machines",
		"sqs:GetQueueAttributes": "tenon doctor looks at the queue's policy",
		"sts:GetCallerIdentity":  "tenon doctor says who asks",
	}
}

// Least privilege, and enough of it: an action is allowed if and only if the program calls it.
func TestThePoliciesAllowWhatTheProgramCallsAndNothingElse(t *testing.T) {
	t.Parallel()
	called, allowed := calls(t), map[string]string{}
	for _, s := range controllerStatements(t) {
		for _, action := range s.Action {
			allowed[action] = s.Sid
		}
	}
	for _, action := range slices.Sorted(maps.Keys(called)) {
		if allowed[action] == "" && ofPeople()[action] == "" {
			t.Errorf("%s calls %s, which no policy in %s allows", called[action], action, policies)
		}
	}
	for _, action := range slices.Sorted(maps.Keys(allowed)) {
		by := cmp.Or(called[action], withoutCall()[action])
		t.Logf("%-36s %-42s %s", action, allowed[action], by)
		if by == "" {
			t.Errorf("statement %s allows %s, which nothing calls", allowed[action], action)
		}
	}
	for _, action := range slices.Sorted(maps.Keys(withoutCall())) {
		if allowed[action] == "" {
			t.Errorf("%s is said to be needed, and is not allowed", action)
		}
	}
	for _, action := range slices.Sorted(maps.Keys(ofPeople())) {
		if allowed[action] != "" || called[action] == "" {
			t.Errorf("%s is said to be called by people only; the controller may (%q), or nothing calls it", action, allowed[action])
		}
	}
}

// An error that says that an action is denied names the statement that has to be added: it has to be one that allows it.
func TestErrorsNameStatementsThatAllowTheAction(t *testing.T) {
	t.Parallel()
	statements := controllerStatements(t)
	for _, s := range statements {
		for _, action := range s.Action {
			sid := cloud.Statement(action, "")
			if !slices.ContainsFunc(statements, func(s statement) bool { return s.Sid == sid && slices.Contains(s.Action, action) }) {
				t.Errorf("for %s statement %q is named, which does not allow it; %s does", action, sid, s.Sid)
			}
		}
	}
}

// calls lists which actions the program can call, each with a place where it does. It finds every use of a method of the
// SDK's clients, in every package of ours that imports one.
func calls(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range callers(t) {
		for expression, used := range uses(p) {
			if action := actionOf(t, used); action != "" {
				place := path.Base(p.PkgPath) + "/" + path.Base(p.Fset.Position(expression.Pos()).String())
				if out[action] == "" || place < out[action] {
					out[action] = place
				}
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d calls were found: %q", len(out), slices.Sorted(maps.Keys(out)))
	}
	return out
}

// callers are our packages that import a service of the SDK, but for those that are tests.
func callers(t *testing.T) []*packages.Package {
	t.Helper()
	all, err := packages.Load(&packages.Config{Dir: "../../..", Context: t.Context(), Mode: packages.NeedName | packages.NeedImports}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, p := range all {
		imports := slices.Collect(maps.Keys(p.Imports))
		if slices.ContainsFunc(imports, func(path string) bool { return strings.HasPrefix(path, sdk) }) && !slices.Contains(imports, "testing") {
			paths = append(paths, p.PkgPath)
		}
	}
	if len(paths) < 5 {
		t.Fatalf("only %q import the SDK", paths)
	}
	loaded, err := packages.Load(&packages.Config{
		Dir: "../../..", Context: t.Context(),
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded {
		for _, err := range p.Errors {
			t.Fatal(err)
		}
	}
	return loaded
}

// uses are the functions and methods that a package speaks of.
func uses(p *packages.Package) map[*ast.Ident]*types.Func {
	out := map[*ast.Ident]*types.Func{}
	for identifier, object := range p.TypesInfo.Uses {
		if f, ok := object.(*types.Func); ok && f.Pkg() != nil && strings.HasPrefix(f.Pkg().Path(), sdk) {
			out[identifier] = f
		}
	}
	return out
}

var page = regexp.MustCompile(`^New(\w+)Paginator$`)

// actionOf is the action that calling a function of the SDK takes, "" if it calls nothing.
func actionOf(t *testing.T, f *types.Func) string {
	t.Helper()
	operation := ""
	receiver := f.Signature().Recv()
	switch {
	case receiver == nil && page.MatchString(f.Name()):
		operation = page.FindStringSubmatch(f.Name())[1]
	case receiver == nil && strings.HasSuffix(f.Name(), "Waiter"):
		t.Fatalf("%s: say which operation a waiter calls", f.FullName())
	case receiver != nil && strings.HasSuffix(receiver.Type().String(), ".Client") && f.Name() != "Options":
		operation = f.Name()
	}
	if operation == "" {
		return ""
	}
	id, ok := f.Pkg().Scope().Lookup("ServiceID").(*types.Const)
	if !ok {
		t.Fatalf("%s does not say how its service is called", f.Pkg().Path())
	}
	return cloud.Action(constant.StringVal(id.Val()), operation)
}
