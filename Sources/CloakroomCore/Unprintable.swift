/// A type that holds secrets as plain text, or things that do, and is never printed: interpolating, describing, dumping or
/// reflecting a value shows the name of its type and nothing that is in it.
///
/// Libraries print what they are handed: swift-service-lifecycle logs the services that it runs with all their properties.
public protocol Unprintable: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Unprintable {
    /// The name of the type.
    public var description: String { "\(Self.self)" }
    /// The name of the type.
    public var debugDescription: String { "\(Self.self)" }
    /// Shows no child.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
