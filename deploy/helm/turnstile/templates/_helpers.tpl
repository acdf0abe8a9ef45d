{{- define "turnstile.name" -}}{{ printf "%s-%s" .root.Release.Name .part | trunc 63 | trimSuffix "-" }}{{- end }}

{{- define "turnstile.selector" -}}
app.kubernetes.io/name: turnstile
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "turnstile.labels" -}}
{{ include "turnstile.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "turnstile.image" -}}
{{- $i := merge (dict) (.image | default dict) .root.Values.image -}}
image: "{{ $i.repository }}:{{ $i.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ $i.pullPolicy }}
{{- end }}

{{- define "turnstile.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "turnstile.pod" -}}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
enableServiceLinks: false
securityContext: {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
{{- end }}

{{- define "turnstile.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {{ include "turnstile.selector" . | fromYaml | toJson }}}
{{- end }}

{{- /* How long a pod may take to end: what the program asks for, and a margin for the kubelet. */ -}}
{{- define "turnstile.stop" -}}{{ add .drainSeconds .graceSeconds 10 }}{{- end }}

{{- /* rule: peers and ports of a NetworkPolicy. Without peers or ports it is no rule: Kubernetes would read "all". */ -}}
{{- define "turnstile.rule" -}}
{{- if and .peers .ports }}
- {{ .way }}: {{ .peers | toJson }}
  ports: [
    {{- range $i, $port := .ports }}
    {{- range $j, $protocol := $.protocols | default (list "TCP") }}{{ if or $i $j }}, {{ end }}{protocol: {{ $protocol }}, port: {{ int $port }}}{{ end }}
    {{- end }}]
{{- end }}
{{- end }}

{{- define "turnstile.egress" -}}
{{- $p := .Values.networkPolicy }}
{{- include "turnstile.rule" (dict "way" "to" "peers" $p.dns.peers "ports" $p.dns.ports "protocols" (list "UDP" "TCP")) }}
{{- include "turnstile.rule" (dict "way" "to" "peers" $p.redis.peers "ports" $p.redis.ports) }}
{{- include "turnstile.rule" (dict "way" "to" "peers" $p.traces.peers "ports" $p.traces.ports) }}
{{- include "turnstile.rule" (dict "way" "to" "peers" $p.outside.peers "ports" $p.outside.ports) }}
{{- end }}

{{- /* Settings of values. Helm reads numbers of a file as floats. What the chart sets may not be set again. */ -}}
{{- define "turnstile.env" -}}
{{- range $key, $value := .env }}
{{- if has $key $.own }}{{ fail (printf "env may not have %s: the chart sets it from another value" $key) }}{{ end }}
- name: {{ $key }}
  value: {{ if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{ $value | int64 | toString | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}
