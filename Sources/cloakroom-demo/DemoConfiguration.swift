import Foundation

/// The demo's configuration: the routes of the mock API and of its page, similar to `config/cloakroom.yaml`.
struct DemoConfiguration {
    let port: Int
    let clearPort: Int
    let adminPort: Int
    let apiPort: Int
    let apiToken: String
    let certificateFile: String
    let keyFile: String
    /// A provider that users can sign in with, besides the password at the API; `nil` for none.
    let provider: DemoProvider?

    /// The field in which the mock API receives the user of a provider.
    static let userField = "X-User"

    var yaml: String {
        """
        listeners:
          - address: 127.0.0.1:\(port)
            tls: { certificateFile: \(certificateFile.quoted), keyFile: \(keyFile.quoted) }
          # There is no proxy. The session cookie stays Secure, so a browser does not send it to this listener.
          - { address: "127.0.0.1:\(clearPort)", behindTLSProxy: true }
        admin: { address: "127.0.0.1:\(adminPort)" }
        logging: { level: notice }
        # Written at each start.
        reload: { interval: 0s }
        upstreams:
          api:
            targets: ["http://127.0.0.1:\(apiPort)"]
            apiToken: { value: \(apiToken.quoted) }
            signIn: { path: /auth }
            refresh: { path: /auth/refresh }
            revoke: { path: /auth/revoke }
            user: { path: /user }
            \(provider == nil ? "" : "claimHeaders: { \(Self.userField): sub }")
        \(provider?.yaml ?? "")
        accounts:
          \(provider == nil ? "" : "publicURL: https://localhost:\(port)")
          messages:
            unreachable: Signing in is not available at the moment. Try again later.
            unauthorized: The email/password combination is invalid.
        routes:
        \(open("episodes", "/episodes", "failed_request: The list of episodes could not be fetched."))
        \(protected("video", "/videos/{id}", Self.signInFirst))
        \(protected("user", "/user"))
          # A web page that uses these routes, and its resources.
        \(open("page", "/"))
        \(open("page-script", "/app.js"))
        \(open("page-style", "/app.css"))
        \(open("image", "/images/{name}"))
        \(protected("media", "/media/{id}", Self.signInFirst))
          # Demonstrates how a slow response is streamed. The recorded requests, /__mock/requests, have no route because
          # they contain passwords and tokens. The API's own port serves them to callers with the API token.
        \(open("mock-slow", "/__mock/slow"))

        """
    }

    private static let signInFirst = "unauthorized: You need to be signed in to watch this episode."

    /// A public route.
    private func open(_ name: String, _ path: String, _ message: String = "") -> String {
        route(name, path, message, "requiresAuthorization: false, inject: [apiToken]")
    }

    /// A route that requires a session.
    private func protected(_ name: String, _ path: String, _ message: String = "") -> String {
        let onMissingSession = provider == nil ? "reject" : "login"
        return route(
            name, path, message,
            "requiresAuthorization: true, inject: [apiToken, bearer], onMissingSession: \(onMissingSession)")
    }

    private func route(_ name: String, _ path: String, _ message: String, _ session: String) -> String {
        let messages = message.isEmpty ? "" : ", messages: { \(message) }"
        return "  - { name: \(name), methods: [GET], path: \(path.quoted), upstream: api, \(session)\(messages) }"
    }

    /// Prints the addresses of all listeners, and example commands.
    func printAddresses() {
        let gateway = "https://localhost:\(port)"
        let login = provider.map {
            """

            Or continue with \($0.name), the provider at \($0.issuer):

              \(gateway)/auth/page      all ways to sign in
              \(gateway)/videos/1       leads there first, and back after the sign-in

            """
        }
        let text = """

            Cloakroom is running. It is reachable from this machine only; all data is lost when it ends (Ctrl-C).

              gateway (TLS)    \(gateway)
              gateway (clear)  http://127.0.0.1:\(clearPort)
              admin            http://127.0.0.1:\(adminPort)
              mock API         http://127.0.0.1:\(apiPort)

            Open \(gateway)/ in a browser (it warns of the self-signed certificate)
            and sign in as jo@example.com / secret. Or use these commands:

              curl -sk \(gateway)/episodes
              curl -sk \(gateway)/videos/1
              curl -sk -c cookies.txt -X POST -u jo@example.com:secret \(gateway)/auth
              curl -sk -b cookies.txt \(gateway)/videos/1
              curl -sk -b cookies.txt -X DELETE \(gateway)/auth
            \(login ?? "")

            """
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }
}

/// The registration of the demo at an OpenID Provider.
struct DemoProvider {
    let name: String
    let issuer: String
    let clientID: String
    let clientSecretFile: String

    /// The mock API receives the token; it is for the user of the claim header only to see how that works.
    fileprivate var yaml: String {
        """
        identities:
          \(name.quoted):
            issuer: \(issuer.quoted)
            client: { id: \(clientID.quoted), secretFile: \(clientSecretFile.quoted) }
            tokensFor: [api]
        """
    }
}

extension String {
    /// A string of JSON, which is one of YAML too.
    fileprivate var quoted: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "\"\""
    }
}
