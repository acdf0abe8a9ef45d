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

{{- define "turnstile.dns" -}}
- to: [{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]
  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
{{- end }}

{{- define "turnstile.egress" -}}
{{ include "turnstile.dns" . }}
- to: {{ .Values.networkPolicy.redis.peers | toJson }}
  ports: [{protocol: TCP, port: {{ .Values.networkPolicy.redis.port }}}]
- to: {{ .Values.networkPolicy.outside.peers | toJson }}
  ports: [{{ range $i, $port := .Values.networkPolicy.outside.ports }}{{ if $i }}, {{ end }}{protocol: TCP, port: {{ $port }}}{{ end }}]
{{- end }}
