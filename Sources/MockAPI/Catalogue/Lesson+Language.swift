extension Lesson {
    /// The first part of the course: the language.
    static let language = [
        Lesson(
            slug: "values-first", title: "Values First",
            excerpt: "Why a struct is the first thing to reach for, and the day you will need a class after all.",
            duration: 279),
        Lesson(
            slug: "enums-that-carry-weight", title: "Enums That Carry Weight",
            excerpt: "Put the data into the case it belongs to, and watch half of your optionals disappear.",
            duration: 341),
        Lesson(
            slug: "optionals-without-fear", title: "Optionals without Fear",
            excerpt: "Binding, chaining and falling back: three ways to say maybe, and none of them is a bang.",
            duration: 312),
        Lesson(
            slug: "errors-as-values", title: "Errors as Values",
            excerpt: "Typed throws, small error structs, and a table that says what each of them means to a caller.",
            duration: 405),
        Lesson(
            slug: "generics-by-example", title: "Generics by Example",
            excerpt: "We write the same function three times, get tired of it, and let the compiler write the fourth.",
            duration: 467),
        Lesson(
            slug: "protocols-and-their-cost", title: "Protocols and Their Cost",
            excerpt: "What some and any do to a call, measured, and when the difference is worth a thought.",
            duration: 388),
        Lesson(
            slug: "strings-are-not-arrays", title: "Strings Are Not Arrays",
            excerpt: "Characters, scalars and bytes of one short word, and why counting them is hard.",
            duration: 296),
        Lesson(
            slug: "ownership-in-practice", title: "Ownership in Practice",
            excerpt: "Borrowing, consuming, and a file handle that cannot be closed twice because the types forbid it.",
            duration: 523),
    ]
}
