import Foundation
import MockAPI
import TestSupport

@testable import cloakroom_demo

/// A `cloakroom serve` with TLS and the demo's routes, with a mock API that the test controls.
struct SampleAppGateway {
    let program: ChildProgram
    /// `https://localhost:…`
    let address: String
    /// For clients that verify the certificate.
    let certificateFile: String

    /// Serves while `body` runs.
    /// - Parameters:
    /// - api: The address of the API, if it differs from that of the page.
    /// - provider: An OpenID Provider that signs users in too, as the identity `company`. The route `metadata`, whose upstream
    ///   it is, sends navigations without a session to sign in.
    /// - set: Overrides of the configuration, as `key=value`.
    static func running<R: Sendable>(
        before settings: MockAPISettings = .withTwoUsers, api: String? = nil, provider: MockProvider? = nil,
        set: [String] = [], body: (SampleAppGateway, RunningMockAPI) async throws -> R
    ) async throws -> R {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        return try await MockAPI.withServer(settings) { mock in
            let directory = try TemporaryDirectory()
            var yaml = configuration(page: mock.baseURL, api: api ?? mock.baseURL, certificate: certificate)
            if let provider { yaml = try await adding(provider, to: yaml) }
            try directory.write(yaml, to: "cloakroom.yaml")
            let arguments =
                ["serve", "--config", directory.path(of: "cloakroom.yaml")] + set.flatMap { ["--set", $0] }
            return try await ChildProgram.running(try Executables.cloakroom(), arguments) { program in
                let listening = try await program.waits(for: "clients can connect") { program in
                    program.logLines.first { $0.message == "listening" }?.address
                }
                let gateway = SampleAppGateway(
                    program: program, address: "https://localhost:\(listening.port)",
                    certificateFile: certificate.certificateFile)
                return try await body(gateway, mock)
            }
        }
    }

    /// Redirect URIs contain the port of the gateway, so it is selected before the gateway starts.
    private static func adding(_ provider: MockProvider, to yaml: String) async throws -> String {
        let port = try FreePort.next()
        let settings = provider.settings
        return yaml.replacing("address: 127.0.0.1:0\n    tls:", with: "address: 127.0.0.1:\(port)\n    tls:")
            .replacing(
                "accounts:\n",
                with: """
                    identities:
                      company:
                        issuer: \(provider.issuer)
                        label: Example Company
                        client: { id: \(settings.clientID), secret: \(settings.clientSecret) }
                        tokensFor: [api]
                    accounts:
                      publicURL: https://localhost:\(port)

                    """
            )
            .replacing(
                "upstreams:\n",
                with: """
                    upstreams:
                      provider:
                        targets: ["\(provider.issuer)"]

                    """
            )
                + """
                  - name: metadata
                    methods: [GET]
                    path: /.well-known/openid-configuration
                    upstream: provider
                    requiresAuthorization: true
                    onMissingSession: login

                """
    }

    private static func configuration(page: String, api: String, certificate: DemoCertificate) -> String {
        let signInFirst = "messages: { unauthorized: You need to be signed in to watch this episode. }"
        return """
            listeners:
              - address: 127.0.0.1:0
                tls: { certificateFile: \(certificate.certificateFile), keyFile: \(certificate.keyFile) }
            admin: { address: "127.0.0.1:0" }
            upstreams:
              api:
                targets: ["\(api)"]
                apiToken: { value: demo-api-token }
                signIn: { path: /auth }
                refresh: { path: /auth/refresh }
                revoke: { path: /auth/revoke }
                user: { path: /user }
              pages:
                targets: ["\(page)"]
                apiToken: { value: demo-api-token }
            accounts:
              messages:
                unauthorized: The email/password combination is invalid.
                unreachable: Signing in is not available at the moment. Try again later.
            routes:
            \(route("page", "/", upstream: "pages"))
            \(route("script", "/app.js", upstream: "pages"))
            \(route("style", "/app.css", upstream: "pages"))
            \(route("image", "/images/{name}", upstream: "pages"))
            \(route("episodes", "/episodes", "messages: { failed_request: The list of episodes could not be fetched. }"))
            \(route("video", "/videos/{id}", isProtected: true, signInFirst))
            \(route("media", "/media/{id}", isProtected: true, signInFirst))

            """
    }

    private static func route(
        _ name: String, _ path: String, upstream: String = "api", isProtected: Bool = false, _ more: String = ""
    ) -> String {
        """
          - name: \(name)
            methods: [GET]
            path: \(path)
            upstream: \(upstream)
            requiresAuthorization: \(isProtected)
            inject: [apiToken\(isProtected ? ", bearer" : "")]
            \(more)
        """
    }
}
