package cluster

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

var (
	// secretWord is in a line that may tell a credential.
	secretWord = regexp.MustCompile(`(?i)pass|pwd|secret|token|key|credential|bearer|basic|authorization|cookie|\botp\b|\bpin\b|assertion|signature|jwt|code`)
	// secretFlag is the name of a plugin's flag, or of a variable, whose value is a credential.
	secretFlag = regexp.MustCompile(`(?i)token|secret|pass|pwd|credential|key|bearer|cookie|signature|assertion`)
	// namesSecret is a word that names a kind of credential, and is none.
	namesSecret = regexp.MustCompile(`(?i)^(?:get|id|access|refresh|client|api|bearer|session|secret|private|security|exit|status|error|-|_)*(?:password|passphrase|secret|token|key|credential|bearer|authorization|cookie|otp|pin|assertion|signature|jwt|code)?s?$`)
	// randomWord may be one by its looks: long, with digits among its letters, or too long for a word.
	randomWord = regexp.MustCompile(`[A-Za-z0-9_+=~-]{16,}`)
	maskRun    = regexp.MustCompile(`\*\*\*(?:\s+\*\*\*)+`)
	escapes    = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")
)

// harmlessWords are the words of the sentences in which plugins speak of credentials. Whatever else stands in such a
// sentence may be one.
var harmlessWords = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(`
		a an the this that it its your you we i in into on at to from for of with without by as and or not no nor but if when
		then there here all any new old other same is are was were be been being has have had do does did can cannot can't
		could couldn't may might must should will would won't don't doesn't didn't isn't
		400 401 403 404 429 500 502 503 504
		account action again allowed already an answer associated attempt authenticate authentication authenticated
		authorized aws az azure bad before browser cache cached call cannot certificate check cloud cluster command
		configuration configure configured contain corresponding create current default denied directory does done either
		empty endpoint environment error errors exchange exec executing exist exists expired expires fail failed failure fatal
		fetch fetching file find first flag following forbidden format found gcloud generate get getting given google grant
		granted has http https identity incorrect instance interaction interactive internal invalid issued kubeconfig kubectl
		kubelogin kubernetes later likely loaded locate log logged login logout long longer make malformed method missing
		more need needed needs network obtain obtaining operation operator oauth oauth2 out parse parsing permission please
		plugin print profile prompt provide provided provider read reading reason received refresh refreshing rejected
		renew request requested required requires response retrieve retrieving return returned revoked role run running see sent
		server service session set sign signin sso status store stored sure system time timeout tls token try trying unable
		unauthorized unexpected unknown unset unsupported update use used user using valid validate validation value
		variable verify version via wait waiting warning whether while write wrong yet`) {
		words[word] = true
	}
	return words
}()

// harmless tells whether a word may be shown in a line that may tell a credential.
func harmless(word string) bool {
	word = strings.ToLower(strings.TrimFunc(word, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }))
	return word == "" || harmlessWords[word] || namesSecret.MatchString(word)
}

// words makes what a plugin wrote to stderr fit to be shown (X9). Values that we know are replaced by what they are
// ($NAME for a variable, $1 for an argument), which tells as much and is no secret; the credential on stdout and all
// that looks like one, whosever it is, become ***. In doubt a word is not shown.
func (p *credentialPlugin) words(stdout []byte, text string) string {
	text = strings.ReplaceAll(escapes.ReplaceAllString(text, ""), "\r", "\n")
	names := map[string]bool{}
	text = redact(p.known(stdout, names).Replace(text))

	var lines []string
	told := false // by the line before: "your password is:"
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		secret := secretWord.MatchString(line)
		if secret || told {
			line = maskWords(line, names)
		} else {
			line = maskRandom(line)
		}
		lines = append(lines, line)
		told = secret && endsInSecret(line)
	}
	return maskRun.ReplaceAllString(strings.Join(lines, "\n"), "***")
}

// endsInSecret tells whether what a line tells may follow in the next.
func endsInSecret(line string) bool {
	fields := strings.Fields(line)
	last := fields[len(fields)-1]
	return strings.HasSuffix(last, ":") || strings.HasSuffix(last, "=") || last == "is" || last == "was" || secretWord.MatchString(last)
}

// maskWords leaves of a line the harmless words and the names that stand for known values.
func maskWords(line string, names map[string]bool) string {
	fields := strings.Fields(line)
	for i, field := range fields {
		if name := strings.TrimFunc(field, func(r rune) bool { return r != '$' && r != '_' && (unicode.IsPunct(r) || unicode.IsSymbol(r)) }); !names[name] && !harmless(field) {
			fields[i] = "***"
			// The end of a clause stays, for the eye.
			if end := field[len(field)-1]; end == ',' || end == ';' || end == '.' || end == ':' {
				fields[i] += string(end)
			}
		}
	}
	return strings.Join(fields, " ")
}

func maskRandom(line string) string {
	return randomWord.ReplaceAllStringFunc(line, func(word string) string {
		digit, letter := strings.ContainsAny(word, "0123456789"), strings.ContainsFunc(word, unicode.IsLetter)
		if digit && letter || len(word) >= 32 {
			return "***"
		}
		return word
	})
}

// known replaces the values that we know, and fills in the names that it puts in their place.
func (p *credentialPlugin) known(stdout []byte, names map[string]bool) *strings.Replacer {
	values := map[string]string{}
	add := func(value, name string) {
		if strings.HasPrefix(name, "$") {
			names[name] = true
		}
		for _, form := range forms(value) {
			if len(form) >= shortestSecret && !namesSecret.MatchString(form) && values[form] != "***" {
				values[form] = name
			}
		}
	}
	for _, variable := range os.Environ() { // inherited, so the plugin may print them
		if name, value, _ := strings.Cut(variable, "="); secretFlag.MatchString(name) {
			add(value, "$"+name)
		}
	}
	flag := ""
	for i, argument := range p.Args {
		name, value, joined := strings.Cut(argument, "=")
		switch {
		case strings.HasPrefix(argument, "-") && joined:
		case strings.HasPrefix(argument, "-"):
			flag = argument
			continue
		default:
			name, value = flag, argument
		}
		flag = ""
		if secretFlag.MatchString(name) {
			add(value, "***")
			continue
		}
		add(value, "$"+strconv.Itoa(i+1))
		if words := strings.FieldsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"'=:,;`, r) }); len(words) > 1 && secretFlag.MatchString(value) {
			for _, word := range words { // a script, perhaps, with a credential in it
				if !harmless(word) {
					add(word, "***")
				}
			}
		}
	}
	for _, variable := range p.Env {
		add(variable.Value, "$"+variable.Name)
	}
	var credential struct {
		Status struct {
			Token string `json:"token"`
			Key   string `json:"clientKeyData"`
		} `json:"status"`
	}
	_ = json.Unmarshal(stdout, &credential) // whatever else it is holds no credential that we know
	add(credential.Status.Token, "***")
	add(credential.Status.Key, "***")

	// Longest first: a value that contains another must not be left in pieces.
	sorted := sortedKeys(values)
	slices.SortStableFunc(sorted, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(sorted))
	for _, value := range sorted {
		pairs = append(pairs, value, values[value])
	}
	return strings.NewReplacer(pairs...)
}

// forms are the ways in which a program may print a value: as it is, line by line, and as a URL, JSON or a header has it.
func forms(value string) []string {
	value = strings.TrimSpace(value)
	escaped := strconv.Quote(value)
	found := []string{
		value, url.QueryEscape(value), url.PathEscape(value), escaped[1 : len(escaped)-1],
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	}
	for line := range strings.Lines(value) {
		found = append(found, strings.TrimSpace(line))
	}
	return found
}
