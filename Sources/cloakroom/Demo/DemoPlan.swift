import CloakroomCore

/// What the demo serves: the routes of the mock API, in the way that `config/cloakroom.yaml` describes.
struct DemoPlan {
    let port: Int
    let clearPort: Int
    let adminPort: Int
    let apiPort: Int
    let apiToken: String
    let certificateFile: String
    let keyFile: String

    func plan() throws -> GatewayPlan {
        let loopback = "127.0.0.1"
        return GatewayPlan(
            listeners: [
                ListenerPlan(
                    address: HostAndPort(host: loopback, port: port),
                    tls: TLSPlan(certificateFile: certificateFile, keyFile: keyFile)),
                ListenerPlan(address: HostAndPort(host: loopback, port: clearPort)),
            ],
            admin: AdminPlan(address: HostAndPort(host: loopback, port: adminPort)),
            upstreams: [upstream],
            routes: try routes(),
            accounts: AccountsPlan(messages: [
                .unreachable: "You need a network connection to sign in.",
                .unauthorized: "The email/password combination is invalid.",
            ]),
            logging: LoggingPlan(level: "notice"))
    }

    private var upstream: UpstreamPlan {
        UpstreamPlan(
            name: "api", targets: [UpstreamTargetPlan(HostAndPort(host: "127.0.0.1", port: apiPort))],
            apiToken: APIToken(value: Secret(apiToken)),
            signIn: TokenCallPlan(path: "/auth", credentials: .basic),
            refresh: TokenCallPlan(path: "/auth/refresh"), revoke: TokenCallPlan(path: "/auth/revoke"),
            user: TokenCallPlan(method: "GET", path: "/user"))
    }

    private func routes() throws -> [Route] {
        [
            Route(
                name: "episodes", methods: ["GET"],
                pattern: try PathPattern("/episodes"), requiresAuthorization: false,
                inject: .apiToken, messages: [.failedRequest: "The list of episodes could not be fetched."]),
            Route(
                name: "video", methods: ["GET"],
                pattern: try PathPattern("/videos/{id}"), requiresAuthorization: true,
                inject: [.apiToken, .bearer],
                messages: [.unauthorized: "You need to be signed in to watch this episode."]),
            Route(
                name: "user", methods: ["GET"], pattern: try PathPattern("/user"),
                requiresAuthorization: true, inject: [.apiToken, .bearer]),
            // To see for oneself what the API saw, and how slow answers and bodies go through.
            Route(
                name: "mock-slow", methods: ["GET"],
                pattern: try PathPattern("/__mock/slow"), requiresAuthorization: false,
                inject: .apiToken),
            Route(
                name: "mock-echo", methods: ["POST"],
                pattern: try PathPattern("/__mock/echo"), requiresAuthorization: false,
                inject: .apiToken),
            Route(
                name: "mock-requests", methods: ["GET", "DELETE"],
                pattern: try PathPattern("/__mock/requests"),
                requiresAuthorization: false, inject: .apiToken),
        ]
    }
}
