package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// addError shows an error of a domain as the diagnostic that it already reads like. written is what had been written
// before it, nil at plan: a refusal always says that nothing, or what, was applied (X3).
func addError(diagnostics *diag.Diagnostics, doing string, err error, written []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			addError(diagnostics, doing, one, written)
		}
		return
	}
	summary, detail, attribute := doing, err.Error(), ""
	var problem *cluster.Problem
	var connection *cluster.ConnectionError
	switch {
	case errors.As(err, &problem):
		summary, detail, attribute = problem.Summary, problem.Detail, problem.Attribute
	case errors.As(err, &connection):
		summary, detail = connection.Summary, connection.Detail
	}
	detail = appendWritten(detail, written)
	if attribute != "" {
		diagnostics.AddAttributeError(attributePath(path.Empty(), attribute), summary, detail)
		return
	}
	diagnostics.AddError(summary, detail)
}

// ended explains the error of a call whose time was up or that was interrupted, where nothing below has: the client says
// no more than that a context ended (promise 8 of the design).
func ended(ctx context.Context, doing string, limit time.Duration, err error) error {
	var problem *cluster.Problem
	var connection *cluster.ConnectionError
	if err == nil || ctx.Err() == nil || errors.As(err, &problem) || errors.As(err, &connection) {
		return err
	}
	why := fmt.Sprintf("The time limit of %s was reached", limit)
	if errors.Is(ctx.Err(), context.Canceled) {
		why = "It was interrupted"
	}
	return &cluster.Problem{
		Summary: doing, Err: err,
		Detail: fmt.Sprintf("%s before the cluster had answered (%s). What was asked for last may or may not have been done; the next apply looks, and goes on from there.",
			why, strings.TrimSuffix(err.Error(), ".")),
	}
}

const nothingApplied = "Nothing was applied."

func appendWritten(detail string, written []string) string {
	if len(written) > 0 {
		// A refusal in the middle of something cannot know what came before it.
		detail = strings.ReplaceAll(detail, " "+nothingApplied, "")
		return fmt.Sprintf("%s\nApplied before this: %s.", detail, strings.Join(written, ", "))
	}
	if strings.HasPrefix(detail, "refusing:") && !strings.Contains(detail, nothingApplied) && !strings.Contains(detail, "Nothing was deleted.") {
		return strings.TrimRight(detail, "\n") + " " + nothingApplied
	}
	return detail
}

// attributePath turns a dotted path such as `sandbox.tolerations[0].key` or `sizes["hold"]` into an attribute path.
func attributePath(at path.Path, text string) path.Path {
	for text != "" {
		switch {
		case text[0] == '.':
			text = text[1:]
		case text[0] == '[':
			end := strings.IndexByte(text, ']')
			if end < 0 {
				return at
			}
			key := text[1:end]
			if index, err := strconv.Atoi(key); err == nil {
				at = at.AtListIndex(index)
			} else {
				at = at.AtMapKey(strings.Trim(key, `"`))
			}
			text = text[end+1:]
		default:
			end := strings.IndexAny(text, ".[")
			if end < 0 {
				end = len(text)
			}
			at = at.AtName(text[:end])
			text = text[end:]
		}
	}
	return at
}
