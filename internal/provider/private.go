package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// private is what the runner keeps of a resource beside its state: nobody sees it, and no plan compares it.
type private struct {
	had interface {
		GetKey(context.Context, string) ([]byte, diag.Diagnostics)
	} // nil at create
	kept map[string][]byte
}

// recall is what was kept under a key; nil when nothing was.
func (p *private) recall(ctx context.Context, key string) []byte {
	if p.had == nil {
		return nil
	}
	// The one error is a key that the framework keeps for itself, and ours are constants.
	value, _ := p.had.GetKey(ctx, key)
	return value
}

// remember keeps JSON under a key, once the call has succeeded.
func (p *private) remember(key string, value []byte) {
	if p.kept == nil {
		p.kept = map[string][]byte{}
	}
	p.kept[key] = value
}

func (p *private) write(ctx context.Context, to interface {
	SetKey(context.Context, string, []byte) diag.Diagnostics
},
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	for key, value := range p.kept {
		diagnostics.Append(to.SetKey(ctx, key, value)...)
	}
	return diagnostics
}
