package cluster

// Problem is something wrong, told as a diagnostic: the attribute it is about, what is wrong, and why and what to do.
// Domain functions return it as their error; the provider shows it as it is.
type Problem struct {
	// Attribute is the path of the attribute at fault, such as "kubeconfig_path" or "exec.api_version"; empty when
	// no attribute is.
	Attribute string
	// Summary says in a few words what is wrong, and names its object.
	Summary string
	// Detail says what is wrong and where, what was and was not applied, and ends with the remedy.
	Detail string
	// Err is the cause, where there is one to look into.
	Err error
}

// Error makes a Problem an error that reads like a diagnostic.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Summary
	}
	return p.Summary + ": " + p.Detail
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }
