import CloakroomWire

/// Request fields by which an upstream can be given another method, path, host, client address or user than those that
/// the gateway has judged.
///
/// They end here for every client, a trusted peer's too: a proxy that sets one of them passes the others on as its own
/// client sent them. A route may list those that its upstream needs. In trailers they end here in any case.
public enum ClaimFields {
    static let names = [
        // Another method.
        "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-Method", "X-Method",
        // Another path or host: frameworks route by these (CVE-2018-14773).
        "X-Original-URL", "X-Original-URI", "X-Original-Path", "X-Rewrite-URL", "X-Original-Host", "X-Host",
        "X-HTTP-Host-Override", "X-Script-Name", "X-Override-URL",
        // Another client address: what content delivery networks and load balancers set.
        "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "X-True-Client-IP", "CF-Connecting-IP",
        "CF-Connecting-IPv6", "Fastly-Client-IP", "Fly-Client-IP", "X-Originating-IP", "X-ProxyUser-IP",
        "X-Azure-ClientIP", "X-Envoy-External-Address", "Forwarded-For",
        // Another user: what proxies that sign people in set.
        "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Preferred-Username",
        "X-Forwarded-Access-Token", "X-Credential-Identifier", "X-Goog-IAP-JWT-Assertion", "Auth-User", "X-Auth-User",
        "X-Auth-Username", "X-Auth-Email", "X-User", "X-Username", "X-Vouch-User", "X-Apigateway-Api-Userinfo",
        // Another client certificate (RFC 9440 and what came before it).
        "Client-Cert", "Client-Cert-Chain", "X-Forwarded-Client-Cert", "X-ARR-ClientCert", "X-Client-Verify",
        "X-Client-DN",
    ]

    static let prefixes = [
        "Remote-", "X-Remote-", "X-Auth-Request-", "X-Authenticated-", "X-WebAuth-", "X-Authentik-", "X-Consumer-",
        "X-Goog-Authenticated-User-", "X-MS-Client-Principal", "X-Amzn-OIDC-", "Cf-Access-",
        "X-Pomerium-", "Tailscale-User-", "Impersonate-", "X-Appengine-User-", "SSL-Client-", "X-SSL-", "X-TLS-Client-",
        "X-Client-Cert", "X-Amzn-Mtls-Clientcert",
    ]

    private static let all = FieldNameSet(names, prefixes: prefixes)

    /// Whether a field is removed from every request whose route does not list it.
    public static func contains(_ name: String) -> Bool {
        all.contains(name)
    }
}
