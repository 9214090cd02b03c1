/// A configuration for a gateway with the mock API as its upstream: a cleartext listener, and a TLS listener if there
/// is a certificate.
struct GatewayYAML {
    /// Scheme, host and port.
    var upstream: String
    var apiToken = "demo-api-token"
    /// A file that holds the API token, instead of the token itself.
    var apiTokenFile: String?
    var certificate: (file: String, keyFile: String)?
    /// Whether the cleartext listener supports HTTP/2 with prior knowledge.
    var hasClearHTTP2 = false
    /// Whether there are two WebSocket routes, one of which requires a session.
    var hasChat = false
    /// Whether there is a public route for uploads, `/upload`.
    var hasUpload = false
    /// The identity calls of the upstream.
    var calls = [
        "signIn: { path: /auth }", "refresh: { path: /auth/refresh }", "revoke: { path: /auth/revoke }",
        "user: { path: /user }",
    ]
    /// The section `accounts` as one line; empty for none.
    var accounts = ""
    var address = "127.0.0.1:0"
    var adminAddress = "127.0.0.1:0"
    /// The token that the admin listener requires.
    var adminToken: String?

    var yaml: String {
        """
        listeners:
          - address: \(address)
            http2: \(hasClearHTTP2)
        \(tlsListener)admin: { address: "\(adminAddress)"\(adminToken.map { ", token: \($0), tokenScope: everything" } ?? "") }
        upstreams:
          api:
            targets: ["\(upstream)"]
            apiToken: { \(apiTokenFile.map { "valueFile: \($0)" } ?? "value: \(apiToken)") }
            \(calls.joined(separator: "\n    "))
        \(accounts)
        session:
          cookie: { secure: false }
        routes:
          - name: episodes
            methods: [GET]
            path: /episodes
            upstream: api
            requiresAuthorization: false
            inject: [apiToken]
          - name: video
            methods: [GET]
            path: /videos/{id}
            upstream: api
            requiresAuthorization: true
            inject: [apiToken, bearer]
            messages: { unauthorized: You need to be signed in to watch this episode. }
          - name: user
            methods: [GET]
            path: /user
            upstream: api
            requiresAuthorization: true
            inject: [apiToken, bearer]
          - name: echo
            methods: [POST]
            path: /__mock/echo
            upstream: api
            requiresAuthorization: true
            inject: [apiToken, bearer]
        \(chatRoutes)\(uploadRoute)
        """
    }

    private var uploadRoute: String {
        guard hasUpload else { return "" }
        return """
              - name: upload
                methods: [POST]
                path: /upload
                upstream: api
                requiresAuthorization: false

            """
    }

    private var chatRoutes: String {
        guard hasChat else { return "" }
        return """
              - name: chat
                methods: [GET]
                path: /chat
                upstream: api
                requiresAuthorization: true
                inject: [apiToken, bearer]
                websocket: true
              - name: lobby
                methods: [GET]
                path: /lobby
                upstream: api
                requiresAuthorization: false
                websocket: true

            """
    }

    private var tlsListener: String {
        guard let certificate else { return "" }
        return """
              - address: 127.0.0.1:0
                tls:
                  certificateFile: \(certificate.file)
                  keyFile: \(certificate.keyFile)
                  minimumVersion: "1.2"

            """
    }
}
