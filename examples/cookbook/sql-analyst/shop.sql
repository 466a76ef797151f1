CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers, day TEXT NOT NULL, cents INTEGER NOT NULL);
INSERT INTO customers VALUES (1, 'Ann', 'AT'), (2, 'Bob', 'DE'), (3, 'Eve', 'AT');
INSERT INTO orders VALUES (1, 1, '2026-01-03', 1250), (2, 2, '2026-01-09', 9900), (3, 3, '2026-02-01', 4000), (4, 1, '2026-02-11', 750);
