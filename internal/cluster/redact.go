package cluster

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// shortestSecret is the length from which a known secret is looked for in a text: a shorter one would blot out words.
const shortestSecret = 4

// What looks like a credential, whosever it is. Each keeps the part before it, in $1.
var credentialPatterns = []*regexp.Regexp{
	regexp.MustCompile(`()-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|$)`),
	regexp.MustCompile(`()\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?`), // a JWT
	regexp.MustCompile(`()\b(?:k8s-aws-v1\.|ya29\.)[\w.=-]+`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic) )[\w.~+/=-]{8,}`),
	regexp.MustCompile(`(?i)([\w-]*(?:token|secret|password|passwd|credential|api[_-]?key|access[_-]?key|client-key-data)\w*["']?\s*[:=]\s*["']?)[^\s"',&;}]+`),
	regexp.MustCompile(`(?i)(--?[\w-]*(?:token|secret|password|passwd|credential|key)[\w-]*[ =])[^\s-][^\s]*`),
}

// userInURL is the user name and password of a URL.
var userInURL = regexp.MustCompile(`(\w://)[^\s/]*@`)

// toldSecret is a credential that a sentence tells: "the password is X".
var toldSecret = regexp.MustCompile(`(?i)(\b(?:password|passphrase|passwd|secret|token)\s+(?:is|was)[\s:="'` + "`" + `]+)([^\s"'` + "`" + `]+)`)

// redact makes text that others wrote (an error, a plugin's output) fit to be shown: known secrets and everything that
// looks like a credential become *** (X9).
func redact(text string, secrets ...string) string {
	// Longest first: a secret that contains another must not be left in pieces.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		if secret = strings.TrimSpace(secret); len(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	for _, pattern := range credentialPatterns {
		text = pattern.ReplaceAllString(text, "${1}***")
	}
	text = toldSecret.ReplaceAllStringFunc(text, func(told string) string {
		if part := toldSecret.FindStringSubmatch(told); !harmless(part[2]) {
			return part[1] + "***"
		}
		return told
	})
	return userInURL.ReplaceAllString(text, "${1}***@")
}

// secretsOf are the credentials that a configuration holds. An exec plugin's variables are not among them: see
// credentialPlugin.words.
func secretsOf(config *rest.Config) []string {
	if config == nil {
		return nil
	}
	secrets := []string{
		config.BearerToken, config.Password, tokenNow("", config.BearerTokenFile),
		string(config.KeyData), string(config.CertData), string(config.CAData),
	}
	if proxy := proxyOf(config); proxy != nil && proxy.User != nil {
		password, _ := proxy.User.Password()
		secrets = append(secrets, password, proxy.User.String())
	}
	return secrets
}
