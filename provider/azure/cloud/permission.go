package cloud

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// Asker is the caller's identity, from the token.
type Asker struct {
	// Name is the name of a person or the ID of an application. Object is the ID for role assignments; "" if the token does not have it.
	Name, Object, Tenant string
}

// Asker gets a token and reads the caller's identity from it. A token that cannot be parsed gives an empty Asker and no error.
func (c *Cloud) Asker(ctx context.Context) (Asker, error) {
	where, set := c.config.Options.Cloud.Services[azcloud.ResourceManager]
	if !set {
		where = azcloud.AzurePublic.Services[azcloud.ResourceManager]
	}
	token, err := c.config.Credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{strings.TrimSuffix(where.Audience, "/") + "/.default"}})
	if err != nil {
		return Asker{}, decode("Token", "", false, err)
	}
	var claims struct {
		Name   string `json:"unique_name"`
		UPN    string `json:"upn"`
		App    string `json:"appid"`
		Object string `json:"oid"`
		Tenant string `json:"tid"`
	}
	parts := strings.Split(token.Token, ".")
	if len(parts) != 3 {
		return Asker{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return Asker{}, nil
	}
	name := claims.App
	for _, better := range []string{claims.Name, claims.UPN} {
		if better != "" {
			name = better
		}
	}
	return Asker{Name: name, Object: claims.Object, Tenant: claims.Tenant}, nil
}

// Permission lists the actions that one role allows.
type Permission struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions"`
}

// Allows reports whether one of the permissions allows an action.
func Allows(list []Permission, action string) bool {
	covers := func(pattern string) bool { return matches(strings.ToLower(pattern), strings.ToLower(action)) }
	return slices.ContainsFunc(list, func(p Permission) bool {
		return slices.ContainsFunc(p.Actions, covers) && !slices.ContainsFunc(p.NotActions, covers)
	})
}

// matches reports whether a text matches a pattern, in which * matches any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return strings.HasSuffix(text, last)
}

// Permissions returns the caller's permissions on a resource or resource group, by its ID. It ignores deny assignments.
func (c *Cloud) Permissions(ctx context.Context, scope string) (out []Permission, err error) {
	const call, pages = "Permissions_List", 100
	client, err := arm.NewClient("tenon.sh/provider/azure/cloud", "v1.0.0", c.config.Credential, &c.config.Options)
	if err != nil {
		return nil, decode(call, scope, false, err)
	}
	next := runtime.JoinPaths(client.Endpoint(), scope, "providers/Microsoft.Authorization/permissions") + "?api-version=2022-04-01"
	for page := 0; next != ""; page++ {
		if page == pages {
			return nil, brokenError(call, scope, "more than %d pages", pages)
		}
		request, err := runtime.NewRequest(ctx, http.MethodGet, next)
		if err != nil {
			return nil, decode(call, scope, false, err)
		}
		answer, err := client.Pipeline().Do(request)
		if err != nil {
			return nil, decode(call, scope, false, err)
		}
		if answer.StatusCode != http.StatusOK {
			return nil, decode(call, scope, false, runtime.NewResponseError(answer))
		}
		var said struct {
			Value    []Permission `json:"value"`
			NextLink string       `json:"nextLink"`
		}
		if err := runtime.UnmarshalAsJSON(answer, &said); err != nil {
			return nil, decode(call, scope, false, err)
		}
		out, next = append(out, said.Value...), said.NextLink
	}
	return out, nil
}
