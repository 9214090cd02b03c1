import CloakroomCore

/// What the demo serves: the routes of the mock API and of its page, in the way that `config/cloakroom.yaml` describes.
struct DemoConfiguration {
    let port: Int
    let clearPort: Int
    let adminPort: Int
    let apiPort: Int
    let apiToken: String
    let certificateFile: String
    let keyFile: String

    func configuration() throws -> GatewayConfiguration {
        let loopback = "127.0.0.1"
        return GatewayConfiguration(
            listeners: [
                ListenerConfiguration(
                    address: HostAndPort(host: loopback, port: port),
                    tls: ListenerTLSConfiguration(certificateFile: certificateFile, keyFile: keyFile)),
                ListenerConfiguration(address: HostAndPort(host: loopback, port: clearPort)),
            ],
            admin: AdminConfiguration(address: HostAndPort(host: loopback, port: adminPort)),
            upstreams: [upstream],
            routes: try routes(),
            accounts: AccountsConfiguration(messages: [
                .unreachable: "You need a network connection to sign in.",
                .unauthorized: "The email/password combination is invalid.",
            ]),
            logging: LoggingConfiguration(level: "notice"))
    }

    private var upstream: UpstreamConfiguration {
        UpstreamConfiguration(
            name: "api", targets: [UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: apiPort))],
            apiToken: APIToken(value: Secret(apiToken)),
            signIn: IdentityEndpointConfiguration(path: "/auth", credentials: .basic),
            refresh: IdentityEndpointConfiguration(path: "/auth/refresh"),
            revoke: IdentityEndpointConfiguration(path: "/auth/revoke"),
            user: IdentityEndpointConfiguration(method: "GET", path: "/user"))
    }

    private func routes() throws -> [Route] {
        let signInFirst = "You need to be signed in to watch this episode."
        return [
            try open(
                "episodes", "/episodes", messages: [.failedRequest: "The list of episodes could not be fetched."]),
            try protected("video", "/videos/{id}", messages: [.unauthorized: signInFirst]),
            try protected("user", "/user"),
            // A page that uses them, and what it shows.
            try open("page", "/"),
            try open("page-script", "/app.js"),
            try open("page-style", "/app.css"),
            try open("image", "/images/{name}"),
            try protected("media", "/media/{id}", messages: [.unauthorized: signInFirst]),
            // To see for oneself how an answer that takes its time goes through. What the API saw, /__mock/requests, has
            // no route: passwords and tokens stand in it. The API's own port shows it to who has the API token.
            try open("mock-slow", "/__mock/slow"),
        ]
    }

    /// A route for everybody.
    private func open(_ name: String, _ path: String, messages: [ProblemCode: String] = [:]) throws -> Route {
        Route(
            name: name, methods: ["GET"], pattern: try PathPattern(path), requiresAuthorization: false,
            inject: .apiToken, messages: messages)
    }

    /// A route for who is signed in.
    private func protected(_ name: String, _ path: String, messages: [ProblemCode: String] = [:]) throws -> Route {
        Route(
            name: name, methods: ["GET"], pattern: try PathPattern(path), requiresAuthorization: true,
            inject: [.apiToken, .bearer], messages: messages)
    }
}
