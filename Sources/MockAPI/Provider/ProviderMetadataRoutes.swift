/// The discovery document (OpenID Connect Discovery 1.0 §3) and the key set.
struct ProviderMetadataRoutes {
    let state: ProviderState

    var routes: RouteTable {
        [
            "GET /.well-known/openid-configuration": { _ in try await state.respond(.discovery) { document } },
            "GET /jwks": { _ in try await state.respond(.keys) { MockResponse(providerJSON: try state.keySet()) } },
        ]
    }

    private var document: MockResponse {
        let issuer = state.issuer
        func url(_ path: String) -> String { RawJSON.string(issuer + path) }
        let members = RawObject([
            ("issuer", RawJSON.string(issuer)), ("authorization_endpoint", url("/authorize")),
            ("token_endpoint", url("/token")), ("jwks_uri", url("/jwks")),
            ("userinfo_endpoint", url("/userinfo")), ("revocation_endpoint", url("/revoke")),
            ("introspection_endpoint", url("/introspect")),
            ("end_session_endpoint", url("/end_session")),
            ("pushed_authorization_request_endpoint", url("/par")),
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
        return MockResponse(providerJSON: members.applying(state.script.discovery).json)
    }
}
