import Hummingbird

/// The paths of a provider.
enum ProviderPath {
    static let discovery = "/.well-known/openid-configuration"
    static let keys = "/jwks"
    static let authorization = "/authorize"
    static let pushed = "/par"
    static let token = "/token"
    static let userInfo = "/userinfo"
    static let revocation = "/revoke"
    static let endSession = "/end_session"
}

/// The discovery document (OpenID Connect Discovery 1.0 §3) and the key set.
struct ProviderMetadataRoutes {
    let state: ProviderState

    func register(on router: Router<ProviderContext>) {
        router.get(RouterPath(ProviderPath.discovery)) { _, context in
            try await ProviderResponse.perform(.discovery, state, context) { document }
        }
        router.get(RouterPath(ProviderPath.keys)) { _, context in
            try await ProviderResponse.perform(.keys, state, context) { .json(try state.keySet()) }
        }
    }

    private var document: ProviderResponse {
        let issuer = state.issuer
        func url(_ path: String) -> String { RawJSON.string(issuer + path) }
        let members = RawObject([
            ("issuer", RawJSON.string(issuer)), ("authorization_endpoint", url(ProviderPath.authorization)),
            ("token_endpoint", url(ProviderPath.token)), ("jwks_uri", url(ProviderPath.keys)),
            ("userinfo_endpoint", url(ProviderPath.userInfo)), ("revocation_endpoint", url(ProviderPath.revocation)),
            ("end_session_endpoint", url(ProviderPath.endSession)),
            ("pushed_authorization_request_endpoint", url(ProviderPath.pushed)),
            ("authorization_response_iss_parameter_supported", "true"),
            ("backchannel_logout_supported", "true"), ("backchannel_logout_session_supported", "true"),
            ("response_types_supported", #"["code"]"#), ("subject_types_supported", #"["public"]"#),
            ("code_challenge_methods_supported", #"["S256"]"#),
            (
                "grant_types_supported",
                RawJSON.list(["authorization_code", "refresh_token", TokenRoutes.exchangeGrant])
            ),
            (
                "id_token_signing_alg_values_supported",
                RawJSON.list(ProviderAlgorithm.allCases.map(\.rawValue))
            ),
            ("token_endpoint_auth_methods_supported", #"["client_secret_basic","client_secret_post"]"#),
        ])
        return .json(members.applying(state.script.discovery).json)
    }
}
