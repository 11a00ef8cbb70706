package accounttest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.yaml.in/yaml/v3"

	"tenon.sh/provider/aws/awstest"
)

// call asks a service that the product never asks, and that the SDK is therefore not at hand for.
func call(t *testing.T, account *awstest.Account, service, contentType, target, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, account.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+awstest.Region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	if target != "" {
		request.Header.Set("X-Amz-Target", target)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s%s: %s, %v\n%s", service, target, body[:min(len(body), 60)], response.Status, err, answer)
	}
	return string(answer)
}

// withDocuments is the template with its policies as YAML: CloudFormation takes them as text too, moto does not.
func withDocuments(t *testing.T, x *template) string {
	t.Helper()
	for _, resource := range x.sections["Resources"] {
		properties := maps.Collect(entries(resource))["Properties"]
		for key, node := range entries(properties) {
			if text, isText := x.value(node).(string); isText && strings.HasSuffix(key, "PolicyDocument") {
				var document yaml.Node
				if err := yaml.Unmarshal([]byte(text), &document); err != nil {
					t.Fatal(err)
				}
				*node = *document.Content[0]
			}
		}
	}
	out, err := yaml.Marshal(x.root)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// cloudFormation asks CloudFormation for something.
func cloudFormation(t *testing.T, account *awstest.Account, action string, more url.Values) string {
	t.Helper()
	form := maps.Clone(more)
	form.Set("Action", action)
	return call(t, account, "cloudformation", "application/x-www-form-urlencoded", "", form.Encode())
}

// CloudFormation's linter, which moto asks, knows every kind of resource with its properties.
func TestTheTemplateIsValid(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(templateFile)
	if err != nil {
		t.Fatal(err)
	}
	cloudFormation(t, awstest.New(t), "ValidateTemplate", url.Values{"TemplateBody": {string(content)}})
}

// stack makes a stack from the template.
func stack(t *testing.T, account *awstest.Account, want *template) {
	t.Helper()
	form := url.Values{"StackName": {"Karpenter-demo"}, "TemplateBody": {withDocuments(t, want)}, "Capabilities.member.1": {"CAPABILITY_NAMED_IAM"}}
	i := 0
	for key, value := range want.values {
		i++
		form.Set(fmt.Sprintf("Parameters.member.%d.ParameterKey", i), key)
		form.Set(fmt.Sprintf("Parameters.member.%d.ParameterValue", i), value)
	}
	cloudFormation(t, account, "CreateStack", form)
	if answer := cloudFormation(t, account, "DescribeStacks", form); !strings.Contains(answer, "<StackStatus>CREATE_COMPLETE</StackStatus>") {
		t.Fatal(answer)
	}
}

// An independent CloudFormation carries the template out, and what it makes is what was meant. Moto's attaches no policies to
// roles, sets none on queues and makes nothing in EKS.
func TestTheTemplateMakesAStack(t *testing.T) {
	t.Parallel()
	for _, in := range places() {
		in.partition, in.region, in.dnsSuffix = "aws", awstest.Region, "amazonaws.com"
		t.Run(in.values["ControllerRole"], func(t *testing.T) {
			t.Parallel()
			account := awstest.New(t)
			account.NewCluster("")
			in.account = account.ID
			want := readTemplate(t, in)
			stack(t, account, readTemplate(t, in))
			checkRoles(t, account, want)
			checkPolicies(t, account, want)
			checkQueue(t, account, want)
		})
	}
}

func checkRoles(t *testing.T, account *awstest.Account, want *template) {
	t.Helper()
	client := iam.NewFromConfig(account.Config())
	for resource, p := range want.resources() {
		name, isRole := p["RoleName"].(string)
		if !isRole {
			continue
		}
		got, err := client.GetRole(t.Context(), &iam.GetRoleInput{RoleName: &name})
		if err != nil {
			t.Errorf("%s: %v", resource, err)
			continue
		}
		same(t, name, *got.Role.AssumeRolePolicyDocument, p["AssumeRolePolicyDocument"].(string))
	}
}

func checkPolicies(t *testing.T, account *awstest.Account, want *template) {
	t.Helper()
	client := iam.NewFromConfig(account.Config())
	for resource, p := range want.resources() {
		name, isPolicy := p["ManagedPolicyName"].(string)
		if !isPolicy {
			continue
		}
		arn := "arn:aws:iam::" + account.ID + ":policy/" + name
		got, err := client.GetPolicyVersion(t.Context(), &iam.GetPolicyVersionInput{PolicyArn: &arn, VersionId: aws.String("v1")})
		if err != nil {
			t.Errorf("%s: %v", resource, err)
			continue
		}
		same(t, name, *got.PolicyVersion.Document, p["PolicyDocument"].(string))
	}
}

// same compares policies; IAM answers with them as in a URL.
func same(t *testing.T, name, got, want string) {
	t.Helper()
	text, err := url.QueryUnescape(got)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(parsed(t, text))
	b, _ := json.Marshal(parsed(t, want))
	if string(a) != string(b) {
		t.Errorf("%s:\ngot  %s\nwant %s", name, a, b)
	}
}

// checkQueue: what EventBridge is told of an interruption arrives in the queue.
func checkQueue(t *testing.T, account *awstest.Account, want *template) {
	t.Helper()
	client := sqs.NewFromConfig(account.Config())
	queue, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("demo")})
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: queue.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{"All"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := attributes.Attributes["MessageRetentionPeriod"]; got != "300" {
		t.Errorf("messages are kept for %s s", got)
	}
	var entries []map[string]any
	for _, p := range want.resources() {
		if pattern, ok := p["EventPattern"].(map[string]any); ok {
			entries = append(entries, map[string]any{"Source": pattern["source"].([]any)[0], "DetailType": pattern["detail-type"].([]any)[0], "Detail": "{}"})
		}
	}
	entries = append(entries, map[string]any{"Source": "aws.ec2", "DetailType": "EC2 Something Else", "Detail": "{}"})
	body, err := json.Marshal(map[string]any{"Entries": entries})
	if err != nil {
		t.Fatal(err)
	}
	call(t, account, "events", "application/x-amz-json-1.1", "AWSEvents.PutEvents", string(body))
	got, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, MaxNumberOfMessages: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Messages) != 5 || len(entries) != 6 {
		t.Errorf("%d of %d events arrived, want all but the one that is none of ours", len(got.Messages), len(entries))
	}
}
